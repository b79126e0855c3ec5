/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright the Orchard authors. */
#ifndef ORCHARD_ORCHARD_H
#define ORCHARD_ORCHARD_H

/* Orchard in C: heaps for the host, and the functions that kernels call. Any C or C++ from C99 and C++11 on; kernels in
 * sources of C++11 and later. No other header of Orchard is needed.
 *
 *     host                                            device, in a program linked with orchard::device
 *
 *     orchard_init(NULL);                             __global__ void kernel() {
 *     kernel<<<400, 256>>>();                             int* p = (int*)orchard_malloc(40);
 *     cudaDeviceSynchronize();                            orchard_free(p);
 *     puts(orchard_heap_stats(orchard_default_heap()));   }
 *
 * Functions that return `int` return ORCHARD_OK or another orchard_status. Functions that return a pointer return null
 * on error. `orchard_last_error` then says why. All functions may be called from any thread. A call that works on a heap
 * waits for another one on the same handle, except `orchard_heap_allocate`, `orchard_heap_free` and `orchard_heap_ref`. */

#if !defined(__CUDACC_RTC__) /* NVRTC takes no functions of the host, and knows size_t without a header */
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(ORCHARD_SHARED_BUILD)
#define ORCHARD_API __attribute__((visibility("default")))
#else
#define ORCHARD_API
#endif

/* The results of functions. The numbers do not change. */
typedef enum orchard_status {
    ORCHARD_OK = 0,
    ORCHARD_INVALID_ARGUMENT = 3,     /* not a valid value, or not a name=value pair */
    ORCHARD_DEADLINE_EXCEEDED = 4,    /* a kernel or the system did not answer in time */
    ORCHARD_NOT_FOUND = 5,            /* an option of that name does not exist */
    ORCHARD_RESOURCE_EXHAUSTED = 8,   /* memory is short */
    ORCHARD_FAILED_PRECONDITION = 9,  /* no usable GPU, or a call at the wrong time */
    ORCHARD_OUT_OF_RANGE = 11,        /* an option's value outside its range */
    ORCHARD_INTERNAL = 13,            /* a fault of the driver or of Orchard */
    ORCHARD_DATA_LOSS = 15            /* the program wrote where it may not */
} orchard_status;

/* A heap. Its owner destroys it; the default heaps belong to the library. */
typedef struct orchard_heap orchard_heap;

/* Returns the version, such as "0.1.0". */
ORCHARD_API const char* orchard_version(void);

/* Returns the text of the calling thread's newest error, "" if there was none. Valid until the next error of this
 * thread. */
ORCHARD_API const char* orchard_last_error(void);

/* --- heaps --- */

/* Makes a heap on the calling thread's current GPU, and writes it to `*heap`. Errors: INVALID_ARGUMENT, NOT_FOUND,
 * OUT_OF_RANGE for the options; FAILED_PRECONDITION if there is no usable GPU; RESOURCE_EXHAUSTED. `*heap` is null
 * then. Cost: some 10 ms.
 * options: "name=value" separated by blanks, commas or semicolons, such as "capacity=8GiB request_timeout=5s"; null or ""
 *     for the defaults. docs/options.md lists the names. The variables ORCHARD_<NAME> come first, and the text may
 *     change their values. "device=emulated" makes a heap without a GPU, for tests of the host's side. */
ORCHARD_API int orchard_heap_create(const char* options, orchard_heap** heap);

/* Makes a heap in memory that the caller supplies, as `orchard_heap_create` otherwise. The heap uses the segments (2 MiB,
 * aligned to 2 MiB) that lie entirely in the memory, and neither grows nor gives memory back. The memory must outlive
 * the heap and remains the caller's. Errors: those of `orchard_heap_create`; INVALID_ARGUMENT if the memory contains no
 * whole segment. Cost: that of `orchard_heap_create`, and 0.93 % of the memory for metadata, from the device's memory.
 * memory, bytes: device memory of the current GPU, or other memory that its kernels can access, such as a tensor's
 *     storage; ordinary memory for "device=emulated".
 * options: "backing", "capacity" and "range" are ignored. */
ORCHARD_API int orchard_heap_create_in(void* memory, size_t bytes, const char* options, orchard_heap** heap);

/* Ends a heap and releases its memory; does nothing for null. No kernel may use it any more. Requests of later kernels
 * of a module that it was bound to (`orchard_heap_bind`) return null. A default heap is not ended: use
 * `orchard_shutdown`. */
ORCHARD_API void orchard_heap_destroy(orchard_heap* heap);

/* Returns the statistics of a heap as a JSON object, whose fields are those of runtime/statistics/statistics.def. Valid
 * until the calling thread's next call of a function that returns such a text. Kernels may run. Cost: as
 * `orchard::heap::stats`. */
ORCHARD_API const char* orchard_heap_stats(orchard_heap* heap);

/* Returns a JSON object with "kind" ("cuda" or "emulated"), "gpu" (its number) and "reason", and an array "warnings" of
 * this heap's known problems on this machine, and of the variables ORCHARD_* that name no option. Valid as the text of `orchard_heap_stats`. */
ORCHARD_API const char* orchard_heap_device(orchard_heap* heap);

/* Returns one line about the newest request that failed: what was asked for by which thread, why it failed, what the heap
 * holds, and what to change. "" if none failed. Valid as the text of `orchard_heap_stats`. Kernels may run. Cost: as
 * `orchard::heap::last_failure`. */
ORCHARD_API const char* orchard_heap_last_failure(orchard_heap* heap);

/* Writes what each segment of the heap is used for to the file `path`, for `orchard map`. Exact if no kernel runs. Errors:
 * INVALID_ARGUMENT if the file cannot be written; DEADLINE_EXCEEDED. */
ORCHARD_API int orchard_heap_dump(orchard_heap* heap, const char* path);

/* Copies the device's view of a heap into `ref`, an object of type orchard::heap_ref (orchard/device.cuh, C++17), which
 * kernels take by value. Errors: INVALID_ARGUMENT if `bytes` is not sizeof(orchard::heap_ref) of this version;
 * FAILED_PRECONDITION if the heap is no heap of a GPU. */
ORCHARD_API int orchard_heap_ref(orchard_heap* heap, void* ref, size_t bytes);

/* Releases unused memory to the system. Kernels may run. Errors: DEADLINE_EXCEEDED; those of the device. */
ORCHARD_API int orchard_heap_trim(orchard_heap* heap);

/* Commits memory until `bytes` are committed in total. Kernels may run. Errors: RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED. */
ORCHARD_API int orchard_heap_reserve(orchard_heap* heap, size_t bytes);

/* Tells a checker that listens to NVTX's memory functions, such as `compute-sanitizer --nvtx=yes`, which blocks are live,
 * so that it reports the use of a block that an earlier kernel has freed; `*count` is their number, 0 if none listens.
 * `count` may be NULL. `orchard_heap_unmark_live_blocks` ends this, before a kernel that allocates. No kernel may use the
 * heap meanwhile. Errors: FAILED_PRECONDITION if a published algorithm serves the heap; DEADLINE_EXCEEDED. */
ORCHARD_API int orchard_heap_mark_live_blocks(orchard_heap* heap, size_t* count);
ORCHARD_API int orchard_heap_unmark_live_blocks(orchard_heap* heap);

/* Sets how much memory an elastic heap may commit on the device from now on: 2 MiB to the option capacity. Memory without
 * blocks is released first if more is committed; blocks stay. Kernels may run. Errors: OUT_OF_RANGE; FAILED_PRECONDITION
 * if the heap is not elastic; those of `orchard_heap_trim`. */
ORCHARD_API int orchard_heap_set_device_budget(orchard_heap* heap, size_t bytes);

/* Move memory of an elastic heap with the options host_budget and move_unit between the device and the host; addresses and
 * contents stay the same. `orchard_heap_migrate` waits for the work queued on `stream` (a cudaStream_t; NULL: the default
 * stream) and moves what is in use to the device; nothing may use the heap, or allocate from it, until it returns. The others move all memory
 * that moves as a whole with a part of [p, p + bytes) to the device, or to the host; nothing may use that memory,
 * and no kernel allocate from the heap, until they return. orchard/heap.hpp (heap::migrate) says how the heap chooses. Errors: FAILED_PRECONDITION if no memory of the
 * heap moves; OUT_OF_RANGE; RESOURCE_EXHAUSTED if a tier has no room; DEADLINE_EXCEEDED if kernels delay a copy. */
ORCHARD_API int orchard_heap_migrate(orchard_heap* heap, void* stream);
ORCHARD_API int orchard_heap_prefetch(orchard_heap* heap, void* p, size_t bytes);
ORCHARD_API int orchard_heap_demote(orchard_heap* heap, void* p, size_t bytes);

/* Checks all structures of a heap against each other. No kernel may run. Errors: INTERNAL with the first fault found;
 * DATA_LOSS if the program wrote beyond a block of a hardened heap. */
ORCHARD_API int orchard_heap_validate(orchard_heap* heap);

/* Returns a block of at least `bytes` bytes: a device address, aligned to 256 B, for kernels. Null for 0 bytes, which is
 * no error. Kernels may run. Device code and the host may free the block. Cost: about 50 us for 32 blocks. */
ORCHARD_API void* orchard_heap_allocate(orchard_heap* heap, size_t bytes);

/* Frees a block of this heap that the host or device code allocated; does nothing for null. Kernels may run. Errors:
 * INVALID_ARGUMENT for an address outside the heap. Cost: about 20 us. */
ORCHARD_API int orchard_heap_free(orchard_heap* heap, void* block);

/* --- the default heap: one for each GPU, which the device functions below use --- */

/* Makes the default heap of the calling thread's current GPU, unless it is there already and `options` is null or "", and
 * lets the device code of all modules of this program use it, also of those that were loaded since. In a program that is linked with
 * orchard::replace_malloc, the first launch of a kernel does this by itself, unless the variable ORCHARD_INIT is
 * "manual". Errors: those of `orchard_heap_create`; FAILED_PRECONDITION for options if the heap is there already. */
ORCHARD_API int orchard_init(const char* options);

/* Returns the default heap of the calling thread's current GPU, or null if it was not made; `orchard_last_error` then
 * says why. */
ORCHARD_API orchard_heap* orchard_default_heap(void);

/* Ends all default heaps, whose handles are invalid from then on. No kernel may use them any more; requests of later
 * kernels return null. The end of the process does the same, and so does `cudaDeviceReset` for the GPU's heap in a program
 * that is linked with orchard::launch_hooks; the next launch then makes a heap again. Errors: those of the device. */
ORCHARD_API int orchard_shutdown(void);

/* Lets the device code of one module use `heap`; null takes the heap away from it, and its requests return null. For
 * modules that the program loads itself (cuModuleLoad, cuLibraryLoadData, NVRTC, CuPy, Numba) from code that is linked
 * with Orchard's device library. No kernel of the module may run.
 * root, bytes: the device address and the size of the module's symbol "orchard_root", as cuModuleGetGlobal gives them.
 * Errors: INVALID_ARGUMENT for another size; FAILED_PRECONDITION if the module was compiled with another version of
 * Orchard, or the heap is no heap of a GPU; those of the device. */
ORCHARD_API int orchard_heap_bind(orchard_heap* heap, void* root, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* __CUDACC_RTC__ */

/* --- device functions --- */

/* orchard/replace_malloc.cuh, where there is no separable compilation, has its own. */
#if (defined(__CUDACC__) || defined(__CUDACC_RTC__)) && !defined(ORCHARD_SOURCE_HAS_DEVICE_FUNCTIONS)
extern "C" {

/* Returns a block of `bytes` bytes, aligned to 16 B at least, or null. `orchard_malloc(0)` returns null. Any thread may
 * call it, in any branch. Before the heap exists, and without one, it returns null. */
__device__ void* orchard_malloc(size_t bytes);

/* Frees a block of the heap; null is allowed. An address that is no block of the heap is counted (the statistic
 * `invalid_frees`) and otherwise ignored. */
__device__ void orchard_free(void* block);

/* Returns `count` times `size` bytes, all zero, or null. */
__device__ void* orchard_calloc(size_t count, size_t size);

/* Returns `block` resized to `bytes` bytes, at the same or at a new address; null if no memory was found, and `block`
 * stays valid. */
__device__ void* orchard_realloc(void* block, size_t bytes);

/* Returns a block aligned to `alignment`, a power of two up to 2 MiB, or null. */
__device__ void* orchard_aligned_alloc(size_t alignment, size_t bytes);

/* Returns how many bytes of the block may be used; 0 if it is no block of the heap. */
__device__ size_t orchard_usable_size(const void* block);

/* Counts an access to the memory at `p`, so that `orchard_heap_migrate` knows which memory is in use. A kernel calls it
 * for a sample of its accesses, say one of 64. Does nothing if no memory of the heap moves (option move_unit), or for an
 * address that is not in the heap. Cost: one atomic without a result. */
__device__ void orchard_note_access(const void* p);

} /* extern "C" */
#endif

#endif
