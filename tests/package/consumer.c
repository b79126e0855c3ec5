/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright the Orchard authors. */

/* A user's program in C99, with the shared library: a heap of the emulated device, a block, and an error. */

#include <orchard/orchard.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    orchard_heap* heap = NULL;
    if (orchard_heap_create("device=emulated capacity=64MiB", &heap) != ORCHARD_OK) {
        fprintf(stderr, "consumer: %s\n", orchard_last_error());
        return 1;
    }
    void* const block = orchard_heap_allocate(heap, 1000);
    const char* const stats = orchard_heap_stats(heap);
    const int counted = stats != NULL && strstr(stats, "\"allocations\": 1") != NULL;
    const int freed = orchard_heap_free(heap, block) == ORCHARD_OK && orchard_heap_validate(heap) == ORCHARD_OK;
    orchard_heap_destroy(heap);
    const int wrong = orchard_heap_create("no_such_option=1", &heap) != ORCHARD_NOT_FOUND || heap != NULL;
    if (block == NULL || !counted || !freed || wrong) {
        fprintf(stderr, "consumer: block %p, counted %d, freed %d, wrong %d: %s\n", block, counted, freed, wrong,
                orchard_last_error());
        return 1;
    }
    return 0;
}
