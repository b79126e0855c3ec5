// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A tool of NVTX for the tests: a shared library that NVTX loads because NVTX_INJECTION64_PATH names it, and that
/// writes each call to the file NVTX_RECORD_FILE names, one line for a call:
///
///     domain NAME                          heap NUMBER USAGE ADDRESS BYTES NAME
///     thread TID NAME                      heap_end NUMBER
///     push TID PAYLOAD NAME                region NUMBER ADDRESS BYTES
///     pop TID                              region_end ADDRESS
///     start NUMBER PAYLOAD NAME            counter NUMBER NAME
///     end NUMBER                           sample NUMBER VALUE
///     stream ADDRESS NAME
///
/// Names are what the program registered. Every line is written at once, so that another process's end loses none.

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtMem.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::uint64_t next_number = 0;
std::deque<std::string>& strings() {
    static auto* const all = new std::deque<std::string>;
    return *all;
}

__attribute__((format(printf, 1, 2))) void write_line(const char* format, ...) {
    static std::FILE* const file = [] {
        const char* const path = std::getenv("NVTX_RECORD_FILE");
        return path != nullptr ? std::fopen(path, "w") : nullptr;
    }();
    if (file == nullptr) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(file, format, arguments);
    va_end(arguments);
    std::fputc('\n', file);
    std::fflush(file);
}

long this_thread() { return ::syscall(SYS_gettid); }

/// Returns the name of a range: a registered string.
const char* text_of(const nvtxEventAttributes_t* a) {
    return a->messageType == NVTX_MESSAGE_TYPE_REGISTERED
               ? reinterpret_cast<const std::string*>(a->message.registered)->c_str()
               : "not registered";
}

nvtxDomainHandle_t NVTX_API domain_create(const char* name) {
    const std::scoped_lock lock(mutex);
    write_line("domain %s", name);
    return reinterpret_cast<nvtxDomainHandle_t>(&strings().emplace_back(name));
}
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
    const std::scoped_lock lock(mutex);
    return reinterpret_cast<nvtxStringHandle_t>(&strings().emplace_back(text));
}
void NVTX_API name_thread(std::uint32_t thread, const char* name) {
    const std::scoped_lock lock(mutex);
    write_line("thread %" PRIu32 " %s", thread, name);
}
void NVTX_API name_stream(void* stream, const char* name) {
    const std::scoped_lock lock(mutex);
    write_line("stream %" PRIuPTR " %s", reinterpret_cast<std::uintptr_t>(stream), name);
}
int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* a) {
    const std::scoped_lock lock(mutex);
    write_line("push %ld %" PRIu64 " %s", this_thread(), a->payload.ullValue, text_of(a));
    return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
    const std::scoped_lock lock(mutex);
    write_line("pop %ld", this_thread());
    return 0;
}
nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t, const nvtxEventAttributes_t* a) {
    const std::scoped_lock lock(mutex);
    write_line("start %" PRIu64 " %" PRIu64 " %s", ++next_number, a->payload.ullValue, text_of(a));
    return next_number;
}
void NVTX_API end(nvtxDomainHandle_t, nvtxRangeId_t range) {
    const std::scoped_lock lock(mutex);
    write_line("end %" PRIu64, static_cast<std::uint64_t>(range));
}

std::uint64_t NVTX_API counter_register(nvtxDomainHandle_t, const nvtxCounterAttr_t* a) {
    const std::scoped_lock lock(mutex);
    write_line("counter %" PRIu64 " %s", ++next_number, a->name);
    return next_number;
}
void NVTX_API counter_sample(nvtxDomainHandle_t, std::uint64_t counter, std::int64_t value) {
    const std::scoped_lock lock(mutex);
    write_line("sample %" PRIu64 " %" PRId64, counter, value);
}

// Returns null, as a tool does that refuses the heap, if NVTX_RECORDER_REFUSES names its use.
nvtxMemHeapHandle_t NVTX_API heap_register(nvtxDomainHandle_t, nvtxMemHeapDesc_t const* d) {
    const std::scoped_lock lock(mutex);
    const char* const refused = std::getenv("NVTX_RECORDER_REFUSES");
    if (refused != nullptr &&
        std::strstr(refused, d->usage == NVTX_MEM_HEAP_USAGE_TYPE_LAYOUT ? "layout" : "sub_allocator")) {
        return nullptr;
    }
    const auto* const range = static_cast<const nvtxMemVirtualRangeDesc_t*>(d->typeSpecificDesc);
    write_line("heap %" PRIu64 " %s %" PRIuPTR " %zu %s", ++next_number,
               d->usage == NVTX_MEM_HEAP_USAGE_TYPE_LAYOUT ? "layout" : "sub_allocator",
               reinterpret_cast<std::uintptr_t>(range->ptr), range->size, d->message.ascii);
    return reinterpret_cast<nvtxMemHeapHandle_t>(next_number);
}
void NVTX_API heap_unregister(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) {
    const std::scoped_lock lock(mutex);
    write_line("heap_end %" PRIuPTR, reinterpret_cast<std::uintptr_t>(heap));
}
void NVTX_API regions_register(nvtxDomainHandle_t, nvtxMemRegionsRegisterBatch_t const* b) {
    const std::scoped_lock lock(mutex);
    const auto* const all = static_cast<const nvtxMemVirtualRangeDesc_t*>(b->regionDescElements);
    for (std::size_t i = 0; i < b->regionCount; ++i) {
        write_line("region %" PRIuPTR " %" PRIuPTR " %zu", reinterpret_cast<std::uintptr_t>(b->heap),
                   reinterpret_cast<std::uintptr_t>(all[i].ptr), all[i].size);
    }
}
void NVTX_API regions_unregister(nvtxDomainHandle_t, nvtxMemRegionsUnregisterBatch_t const* b) {
    const std::scoped_lock lock(mutex);
    for (std::size_t i = 0; i < b->refCount; ++i) {
        write_line("region_end %" PRIuPTR, reinterpret_cast<std::uintptr_t>(b->refElements[i].pointer));
    }
}

template <class Function>
void set(NvtxFunctionTable table, int place, Function f) {
    *table[place] = reinterpret_cast<NvtxFunctionPointer>(f);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned int size = 0;
    if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) {
        return 0;
    }
    set(table, NVTX_CBID_CORE_NameOsThreadA, &name_thread);
    if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CUDA, &table, &size) == 0) {
        return 0;
    }
    set(table, NVTX_CBID_CUDA_NameCuStreamA, &name_stream);
    if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
        return 0;
    }
    set(table, NVTX_CBID_CORE2_DomainCreateA, &domain_create);
    set(table, NVTX_CBID_CORE2_DomainRegisterStringA, &register_string);
    set(table, NVTX_CBID_CORE2_DomainRangePushEx, &push);
    set(table, NVTX_CBID_CORE2_DomainRangePop, &pop);
    set(table, NVTX_CBID_CORE2_DomainRangeStartEx, &start);
    set(table, NVTX_CBID_CORE2_DomainRangeEnd, &end);
    return 1;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
    if (module->segmentsCount == 0) {
        return 0;
    }
    std::intptr_t* const slots = module->segments[0].functionSlots;
    const auto set_slot = [&](int place, auto f) { slots[place] = reinterpret_cast<std::intptr_t>(f); };
    if (module->moduleId == NVTX_EXT_COUNTERS_MODULEID) {
        set_slot(NVTX3EXT_CBID_nvtxCounterRegister, &counter_register);
        set_slot(NVTX3EXT_CBID_nvtxCounterSampleInt64, &counter_sample);
        return 1;
    }
    if (module->moduleId == NVTX_EXT_MODULEID_MEM) {
        set_slot(NVTX3EXT_CBID_nvtxMemHeapRegister, &heap_register);
        set_slot(NVTX3EXT_CBID_nvtxMemHeapUnregister, &heap_unregister);
        set_slot(NVTX3EXT_CBID_nvtxMemRegionsRegister, &regions_register);
        set_slot(NVTX3EXT_CBID_nvtxMemRegionsUnregister, &regions_unregister);
        return 1;
    }
    return 0;
}

}  // extern "C"
