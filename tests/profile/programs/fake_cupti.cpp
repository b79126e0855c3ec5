// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A library that stands in for CUPTI in tests: the functions that the recorder calls, with records that a program of
/// the tests adds. fake_cupti.hpp says how it is made to fail.

#include "tests/profile/programs/fake_cupti.hpp"

#include "tests/profile/programs/cubin.hpp"

#include <cupti.h>
#include <cupti_pcsampling.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

struct state {
    CUpti_BuffersCallbackRequestFunc request = nullptr;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;
    CUpti_CallbackFunc subscriber = nullptr;
    std::set<unsigned> callbacks;
    std::set<int> enabled;
    bool configured = false;
    bool initialised = false;
    std::vector<std::string> records;
    std::size_t dropped = 0;
    CUpti_PCSamplingData* at_end = nullptr;
    std::uint64_t clock = 1000;
};
state& all() {
    static state s;
    return s;
}

bool fails(std::string_view word) {
    const char* value = std::getenv("FAKE_CUPTI");
    for (std::string_view words = value == nullptr ? "" : value; !words.empty();) {
        const std::size_t end = std::min(words.find(','), words.size());
        if (words.substr(0, end) == word) {
            return true;
        }
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return false;
}

std::size_t size_of(const CUpti_Activity* record) {
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel9);
        case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: return sizeof(CUpti_ActivityUnifiedMemoryCounter2);
        case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy5);
        case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
        case CUPTI_ACTIVITY_KIND_MEMORY_POOL: return sizeof(CUpti_ActivityMemoryPool2);
        default: std::abort();
    }
}

/// The module of the kernel `walk`, with a function of the allocator that is not inlined.
const std::string& module_of_walk() {
    static const std::string cubin = orchard::profiling::test::make_cubin(
        "_Z4walkPi", {{"_Z4walkPi", 0, 0x300}, {"$_Z4walkPi$_ZN7orchard6device11search_pageEv", 0x200, 0x100}});
    return cubin;
}

/// Writes three program counters: one of the allocator, and two of a kernel, of which one is in a function of the
/// allocator. All records of a function share one string, as
/// CUPTI's do: freeing it is an error that the address sanitizer reports.
void sample(CUpti_PCSamplingData& to) {
    static char names[][40] = {"_ZN7orchard6device11small_allocEv", "_Z4walkPi"};
    constexpr std::size_t counters = 3;
    const unsigned samples[counters] = {30, 70, 10};
    if (to.collectNumPcs < counters) {
        std::abort();
    }
    to.totalNumPcs = counters;
    to.totalSamples = 115;
    to.droppedSamples = 5;
    to.remainingNumPcs = 0;
    for (std::size_t i = 0; i < counters; ++i) {
        to.pPcData[i].functionName = names[i == 0 ? 0 : 1];
        to.pPcData[i].cubinCrc = module_of_walk().size();
        to.pPcData[i].pcOffset = i == 2 ? 0x2f0 : 0x10;
        to.pPcData[i].stallReasonCount = 2;
        to.pPcData[i].stallReason[0] = {0, samples[i] - 1};
        to.pPcData[i].stallReason[1] = {1, 1};
    }
}

}  // namespace

FAKE_API void fake_cupti_event(unsigned what) {
    all().initialised = true;
    static int context;
    CUpti_ResourceData data{};
    data.context = reinterpret_cast<CUcontext>(&context);
    CUpti_ModuleResourceData module{};
    if (what == CUPTI_CBID_RESOURCE_MODULE_LOADED) {
        module.cubinSize = module_of_walk().size();
        module.pCubin = module_of_walk().data();
        data.resourceDescriptor = &module;
    }
    if (all().subscriber != nullptr && all().callbacks.contains(what)) {
        all().subscriber(nullptr, CUPTI_CB_DOMAIN_RESOURCE, what, &data);
    }
}

FAKE_API void fake_cupti_record(const void* record, std::size_t bytes) {
    if (all().enabled.contains(static_cast<const CUpti_Activity*>(record)->kind)) {
        all().records.emplace_back(static_cast<const char*>(record), bytes);
    }
}

FAKE_API CUptiResult cuptiGetVersion(uint32_t* version) {
    *version = fails("old") ? 14 : CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
    *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
            : result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
            : result == CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED ? "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED"
            : result == CUPTI_ERROR_NOT_READY                  ? "CUPTI_ERROR_NOT_READY"
                                                               : "CUPTI_ERROR_UNKNOWN";
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiGetTimestamp(uint64_t* ns) {
    *ns = ++all().clock;
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete) {
    all().request = request;
    all().complete = complete;
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc function, void*) {
    if (fails("no_subscriber")) {
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    all().subscriber = function;
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                         CUpti_CallbackId what) {
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        all().callbacks.insert(what);
    }
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && fails("no_kernels")) {
        return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    }
    if (kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER && !all().configured) {
        return CUPTI_ERROR_NOT_READY;
    }
    all().enabled.insert(kind);
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityFlushPeriod(uint32_t) { return CUPTI_SUCCESS; }
FAKE_API CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig*,
                                                                uint32_t count) {
    if (fails("no_unified")) {
        return CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED;
    }
    if (!all().initialised) {
        return CUPTI_ERROR_NOT_READY;
    }
    if (fails("few_counters") && count > 4) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    all().configured = true;
    return CUPTI_SUCCESS;
}

/// Fills one buffer, and hands it back.
FAKE_API CUptiResult cuptiActivityFlushAll(uint32_t) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0;
    std::size_t most = 0;
    all().request(&buffer, &size, &most);
    std::size_t used = 0;
    for (const std::string& record : all().records) {
        if (used + record.size() > size) {
            std::abort();
        }
        std::memcpy(buffer + used, record.data(), record.size());
        used += record.size();
    }
    all().records.clear();
    all().dropped = fails("dropped") ? 7 : 0;
    all().complete(nullptr, 0, buffer, size, used);
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
    if (*record == nullptr) {
        *record = reinterpret_cast<CUpti_Activity*>(buffer);
        return valid == 0 ? CUPTI_ERROR_MAX_LIMIT_REACHED : CUPTI_SUCCESS;
    }
    if (fails("broken")) {
        return CUPTI_ERROR_INVALID_KIND;
    }
    auto* next = reinterpret_cast<std::uint8_t*>(*record) + size_of(*record);
    if (next >= buffer + valid) {
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    }
    *record = reinterpret_cast<CUpti_Activity*>(next);
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, std::size_t* dropped) {
    *dropped = all().dropped;
    all().dropped = 0;
    return CUPTI_SUCCESS;
}

FAKE_API CUptiResult cuptiGetCubinCrc(CUpti_GetCubinCrcParams* p) {
    p->cubinCrc = p->cubinSize;
    return fails("no_crc") ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiPCSamplingEnable(CUpti_PCSamplingEnableParams*) {
    if (fails("no_samples")) {
        return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    }
    fake_cupti_event(CUPTI_CBID_RESOURCE_MODULE_LOADED);  // as CUPTI may call back within its own functions
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiPCSamplingGetNumStallReasons(CUpti_PCSamplingGetNumStallReasonsParams* p) {
    *p->numStallReasons = 2;
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams* p) {
    for (std::size_t i = 0; i < p->numAttributes; ++i) {
        const auto& info = p->pPCSamplingConfigurationInfo[i];
        if (info.attributeType == CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER) {
            all().at_end =
                static_cast<CUpti_PCSamplingData*>(info.attributeData.samplingDataBufferData.samplingDataBuffer);
        }
    }
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams* p) {
    sample(*static_cast<CUpti_PCSamplingData*>(p->pcSamplingData));
    return CUPTI_SUCCESS;
}
FAKE_API CUptiResult cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams*) {
    if (all().at_end != nullptr) {
        sample(*all().at_end);
    }
    return CUPTI_SUCCESS;
}
