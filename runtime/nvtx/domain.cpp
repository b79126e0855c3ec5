// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The calls of NVTX; see domain.hpp. The only source that includes NVTX's headers, which the CUDA toolkit has and this
/// project does not. ORCHARD_HAS_NVTX is 1 where they were found; cmake/nvtx.cmake gives it, and their folder, to this
/// source alone.

#include "runtime/nvtx/domain.hpp"

#ifndef ORCHARD_HAS_NVTX
#define ORCHARD_HAS_NVTX 0
#endif
#if ORCHARD_HAS_NVTX
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtMem.h>)
#include <nvtx3/nvToolsExtMem.h>
#define ORCHARD_NVTX_MEMORY 1
#else
#define ORCHARD_NVTX_MEMORY 0
#endif
#if __has_include(<nvtx3/nvToolsExtCounters.h>) && __has_include(<nvtx3/nvToolsExtSemanticsCounters.h>)
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#endif
// Before 0x0102 the functions had other names.
#if defined(NVTX_EXT_COUNTERS_COMPATID) && NVTX_EXT_COUNTERS_COMPATID >= 0x0102
#define ORCHARD_NVTX_COUNTERS 1
#else
#define ORCHARD_NVTX_COUNTERS 0
#endif
// No type or function of CUDA is needed but its header, which a build for the emulated device may have, too.
#if __has_include(<nvtx3/nvToolsExtCuda.h>) && __has_include(<cuda.h>)
#include <nvtx3/nvToolsExtCuda.h>
#define ORCHARD_NVTX_STREAMS 1
#else
#define ORCHARD_NVTX_STREAMS 0
#endif
#endif

namespace orchard::nvtx {

std::string_view text_of(name n) {
    constexpr std::string_view texts[names] = {"serve requests", "request waits for memory",
                                               "commit",         "decommit",
                                               "move",           "trim",
                                               "build",          "allocate",
                                               "compute",        "free",
                                               "migrate"};
    return texts[static_cast<int>(n)];
}

#if ORCHARD_HAS_NVTX

namespace {

/// The categories by which tools group ranges; the number is the place + 1.
constexpr const char* categories[] = {"service", "growth", "calls", "phases"};
constexpr std::uint32_t category_of(name n) {
    switch (n) {
        case name::serve:
        case name::wait: return 1;
        case name::commit:
        case name::decommit: return 2;
        case name::move:
        case name::trim: return 3;
        default: return 4;
    }
}
/// 0xAARRGGBB.
constexpr std::uint32_t colours[] = {0xff4e79a7, 0xff59a14f, 0xfff28e2b, 0xff76b7b2};

/// The domain with its strings. Made once, and never destroyed: threads of heaps may end after static objects.
struct domain {
    nvtxDomainHandle_t handle = nvtxDomainCreateA("orchard");
    std::array<nvtxStringHandle_t, names> strings{};

    domain() {
        if (handle == nullptr) {
            return;
        }
        for (std::uint32_t i = 0; i < std::size(categories); ++i) {
            nvtxDomainNameCategoryA(handle, i + 1, categories[i]);
        }
        for (int i = 0; i < names; ++i) {
            strings[static_cast<std::size_t>(i)] =
                nvtxDomainRegisterStringA(handle, std::string(text_of(static_cast<name>(i))).c_str());
        }
    }
};
const domain& the_domain() {
    static const domain* const made = new domain;
    return *made;
}

nvtxEventAttributes_t attributes_of(const domain& d, name n, std::uint64_t payload) {
    nvtxEventAttributes_t a{};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.category = category_of(n);
    a.colorType = NVTX_COLOR_ARGB;
    a.color = colours[a.category - 1];
    a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    a.payload.ullValue = payload;
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = d.strings[static_cast<std::size_t>(n)];
    return a;
}

}  // namespace

bool is_built() { return true; }

std::string_view description() {
#if ORCHARD_NVTX_COUNTERS && ORCHARD_NVTX_MEMORY
    return "NVTX 3 with counters and memory";
#elif ORCHARD_NVTX_MEMORY
    return "NVTX 3 with memory";
#else
    return "NVTX 3";
#endif
}

bool is_attached() { return the_domain().handle != nullptr; }

void push(name n, std::uint64_t payload) {
    if (const domain& d = the_domain(); d.handle != nullptr) {
        const nvtxEventAttributes_t a = attributes_of(d, n, payload);
        nvtxDomainRangePushEx(d.handle, &a);
    }
}

void pop() {
    if (const domain& d = the_domain(); d.handle != nullptr) {
        nvtxDomainRangePop(d.handle);
    }
}

std::uint64_t start(name n, std::uint64_t payload) {
    const domain& d = the_domain();
    if (d.handle == nullptr) {
        return 0;
    }
    const nvtxEventAttributes_t a = attributes_of(d, n, payload);
    return nvtxDomainRangeStartEx(d.handle, &a);
}

void end(std::uint64_t range) {
    if (const domain& d = the_domain(); d.handle != nullptr && range != 0) {
        nvtxDomainRangeEnd(d.handle, range);
    }
}

void name_thread(std::string_view name) {
    if (is_attached()) {
        nvtxNameOsThreadA(static_cast<std::uint32_t>(::syscall(SYS_gettid)), ("orchard " + std::string(name)).c_str());
    }
}

bool names_streams() { return ORCHARD_NVTX_STREAMS != 0; }

void name_stream([[maybe_unused]] void* stream, [[maybe_unused]] const char* name) {
#if ORCHARD_NVTX_STREAMS
    if (is_attached() && stream != nullptr) {
        nvtxNameCuStreamA(static_cast<CUstream>(stream), name);
    }
#endif
}

#if ORCHARD_NVTX_COUNTERS
std::uint64_t register_counter(const char* name, const char* description, const char* unit) {
    const domain& d = the_domain();
    if (d.handle == nullptr) {
        return 0;
    }
    nvtxSemanticsCounter_t semantics{};
    semantics.header.structSize = sizeof(semantics);
    semantics.header.semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1;
    semantics.header.version = NVTX_COUNTER_SEMANTIC_VERSION;
    semantics.flags = NVTX_COUNTER_FLAG_VALUETYPE_ABSOLUTE | NVTX_COUNTER_FLAG_INTERPOLATION_UNTIL_NEXT;
    semantics.unit = unit;
    semantics.unitScaleNumerator = 1;
    semantics.unitScaleDenominator = 1;
    semantics.limitType = NVTX_COUNTER_LIMIT_UNDEFINED;
    nvtxCounterAttr_t a{};
    a.structSize = sizeof(a);
    a.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
    a.name = name;
    a.description = description;
    a.scopeId = NVTX_SCOPE_CURRENT_SW_PROCESS;
    a.semantics = &semantics.header;
    a.counterId = NVTX_COUNTER_ID_NONE;
    return nvtxCounterRegister(d.handle, &a);
}
void sample(std::uint64_t counter, std::int64_t value) {
    if (counter != 0) {
        nvtxCounterSampleInt64(the_domain().handle, counter, value);
    }
}
#else
std::uint64_t register_counter(const char*, const char*, const char*) { return 0; }
void sample(std::uint64_t, std::int64_t) {}
#endif

#if ORCHARD_NVTX_MEMORY
memory_heap* register_heap(address_range all, heap_use use, const char* name) {
    nvtxMemVirtualRangeDesc_t range{};
    range.size = all.bytes;
    range.ptr = all.at;
    nvtxMemHeapDesc_t d{};
    d.extCompatID = NVTX_EXT_COMPATID_MEM;
    d.structSize = sizeof(d);
    d.usage = use == heap_use::layout ? NVTX_MEM_HEAP_USAGE_TYPE_LAYOUT : NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    d.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    d.typeSpecificDescSize = sizeof(range);
    d.typeSpecificDesc = &range;
    d.messageType = NVTX_MESSAGE_TYPE_ASCII;
    d.message.ascii = name;
    const nvtxMemHeapHandle_t made = nvtxMemHeapRegister(the_domain().handle, &d);
    // NVTX_MEM_HEAP_HANDLE_NO_TOOL, which is no valid expression of C++. Without a tool it may be null, too.
    return reinterpret_cast<std::intptr_t>(made) == -1 ? nullptr : reinterpret_cast<memory_heap*>(made);
}

void unregister_heap(memory_heap* heap) {
    if (heap != nullptr) {
        nvtxMemHeapUnregister(the_domain().handle, reinterpret_cast<nvtxMemHeapHandle_t>(heap));
    }
}

void register_regions(memory_heap* heap, std::span<const address_range> regions) {
    if (heap == nullptr || regions.empty()) {
        return;
    }
    std::vector<nvtxMemVirtualRangeDesc_t> ranges;
    ranges.reserve(regions.size());
    for (const address_range& r : regions) {
        ranges.push_back({r.bytes, r.at});
    }
    nvtxMemRegionsRegisterBatch_t b{};
    b.extCompatID = NVTX_EXT_COMPATID_MEM;
    b.structSize = sizeof(b);
    b.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    b.heap = reinterpret_cast<nvtxMemHeapHandle_t>(heap);
    b.regionCount = ranges.size();
    b.regionDescElementSize = sizeof(ranges[0]);
    b.regionDescElements = ranges.data();
    nvtxMemRegionsRegister(the_domain().handle, &b);
}

void unregister_regions(memory_heap* heap, std::span<const void* const> first_bytes) {
    if (heap == nullptr || first_bytes.empty()) {
        return;
    }
    std::vector<nvtxMemRegionRef_t> refs(first_bytes.size());
    for (std::size_t i = 0; i < refs.size(); ++i) {
        refs[i].pointer = first_bytes[i];
    }
    nvtxMemRegionsUnregisterBatch_t b{};
    b.extCompatID = NVTX_EXT_COMPATID_MEM;
    b.structSize = sizeof(b);
    b.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    b.refCount = refs.size();
    b.refElementSize = sizeof(refs[0]);
    b.refElements = refs.data();
    nvtxMemRegionsUnregister(the_domain().handle, &b);
}
#else
memory_heap* register_heap(address_range, heap_use, const char*) { return nullptr; }
void unregister_heap(memory_heap*) {}
void register_regions(memory_heap*, std::span<const address_range>) {}
void unregister_regions(memory_heap*, std::span<const void* const>) {}
#endif

#else  // no NVTX

bool is_built() { return false; }
std::string_view description() { return "no NVTX"; }
bool is_attached() { return false; }
void push(name, std::uint64_t) {}
void pop() {}
std::uint64_t start(name, std::uint64_t) { return 0; }
void end(std::uint64_t) {}
void name_thread(std::string_view) {}
bool names_streams() { return false; }
void name_stream(void*, const char*) {}
std::uint64_t register_counter(const char*, const char*, const char*) { return 0; }
void sample(std::uint64_t, std::int64_t) {}
memory_heap* register_heap(address_range, heap_use, const char*) { return nullptr; }
void unregister_heap(memory_heap*) {}
void register_regions(memory_heap*, std::span<const address_range>) {}
void unregister_regions(memory_heap*, std::span<const void* const>) {}

#endif

}  // namespace orchard::nvtx
