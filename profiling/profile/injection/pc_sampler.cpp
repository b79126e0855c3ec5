// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Samples of the program counter; pc_sampler.hpp has the interface.

#include "profiling/profile/injection/pc_sampler.hpp"

#include <algorithm>

namespace orchard::profiling {
namespace {

constexpr std::size_t counters_at_once = 8192;

}  // namespace

pc_sampler::table::table(std::size_t n) : reasons(counters_at_once * n), counters(counters_at_once), stall_reasons{n} {
    for (std::size_t i = 0; i < counters.size(); ++i) {
        counters[i] = {};
        counters[i].size = sizeof(CUpti_PCSamplingPCData);
        counters[i].stallReason = reasons.data() + i * n;
    }
    data.size = sizeof(CUpti_PCSamplingData);
    data.collectNumPcs = counters.size();
    data.pPcData = counters.data();
}

std::string pc_sampler::start(const cupti_functions& cupti, CUcontext context) {
    if (cupti.PCSamplingEnable == nullptr || cupti.PCSamplingDisable == nullptr ||
        cupti.PCSamplingSetConfigurationAttribute == nullptr || cupti.PCSamplingGetNumStallReasons == nullptr ||
        cupti.PCSamplingGetData == nullptr) {
        return "this CUPTI does not sample the program counter";
    }
    CUpti_PCSamplingEnableParams enable = {};
    enable.size = CUpti_PCSamplingEnableParamsSize;
    enable.ctx = context;
    if (const CUptiResult r = cupti.PCSamplingEnable(&enable); r != CUPTI_SUCCESS) {
        return cupti.text_of(r);
    }
    std::size_t reasons = 0;
    CUpti_PCSamplingGetNumStallReasonsParams count = {};
    count.size = CUpti_PCSamplingGetNumStallReasonsParamsSize;
    count.ctx = context;
    count.numStallReasons = &reasons;
    if (const CUptiResult r = cupti.PCSamplingGetNumStallReasons(&count); r != CUPTI_SUCCESS || reasons == 0) {
        return "the number of stall reasons: " + cupti.text_of(r);
    }
    sampled_context made{context, std::make_unique<table>(reasons), std::make_unique<table>(reasons)};
    CUpti_PCSamplingConfigurationInfo info[2] = {};
    info[0].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE;
    info[0].attributeData.collectionModeData.collectionMode = CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
    info[1].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
    info[1].attributeData.samplingDataBufferData.samplingDataBuffer = &made.at_end->data;
    CUpti_PCSamplingConfigurationInfoParams set = {};
    set.size = CUpti_PCSamplingConfigurationInfoParamsSize;
    set.ctx = context;
    set.numAttributes = std::size(info);
    set.pPCSamplingConfigurationInfo = info;
    if (const CUptiResult r = cupti.PCSamplingSetConfigurationAttribute(&set); r != CUPTI_SUCCESS) {
        return "the configuration: " + cupti.text_of(r);
    }
    contexts_.push_back(std::move(made));
    return "";
}

void pc_sampler::load(const cupti_functions& cupti, const void* cubin, std::size_t bytes) {
    if (cupti.GetCubinCrc == nullptr) {
        return;
    }
    CUpti_GetCubinCrcParams crc = {};
    crc.size = CUpti_GetCubinCrcParamsSize;
    crc.cubinSize = bytes;
    crc.cubin = cubin;
    if (cupti.GetCubinCrc(&crc) == CUPTI_SUCCESS) {
        symbols_.add(crc.cubinCrc, {static_cast<const char*>(cubin), bytes});
    }
}

void pc_sampler::collect(const cupti_functions& cupti) {
    for (sampled_context& c : contexts_) {
        collect(cupti, c);
    }
}

/// Bounded, since kernels that still run make new samples.
void pc_sampler::collect(const cupti_functions& cupti, sampled_context& from) {
    constexpr int most_rounds = 64;
    for (int i = 0; i < most_rounds; ++i) {
        CUpti_PCSamplingGetDataParams get = {};
        get.size = CUpti_PCSamplingGetDataParamsSize;
        get.ctx = from.context;
        get.pcSamplingData = &from.now->data;
        if (cupti.PCSamplingGetData(&get) != CUPTI_SUCCESS) {
            return;
        }
        const std::size_t remaining = from.now->data.remainingNumPcs;
        add(*from.now);
        if (remaining == 0) {
            return;
        }
    }
}

/// The names stay: CUPTI shares one string among all records of a function, those of kernels included, and may not have
/// handed out the last of them.
void pc_sampler::add(table& from) {
    all_ += from.data.totalSamples;
    dropped_ += from.data.droppedSamples;
    const std::size_t count = std::min(from.data.totalNumPcs, from.counters.size());
    for (std::size_t i = 0; i < count; ++i) {
        CUpti_PCSamplingPCData& counter = from.counters[i];
        std::uint64_t samples = 0;
        for (std::size_t k = 0; k < std::min(counter.stallReasonCount, from.stall_reasons); ++k) {
            samples += counter.stallReason[k].samples;
        }
        if (counter.functionName != nullptr) {
            functions_[symbols_.function_at(counter.cubinCrc, counter.functionName, counter.pcOffset)] += samples;
            counter.functionName = nullptr;
        }
    }
    from.data.totalSamples = from.data.droppedSamples = 0;
    from.data.totalNumPcs = 0;
}

/// CUPTI writes what it still has to the table that it was given.
void pc_sampler::stop(const cupti_functions& cupti, CUcontext context) {
    std::erase_if(contexts_, [&](sampled_context& c) {
        if (context != nullptr && c.context != context) {
            return false;
        }
        collect(cupti, c);
        CUpti_PCSamplingDisableParams disable = {};
        disable.size = CUpti_PCSamplingDisableParamsSize;
        disable.ctx = c.context;
        if (cupti.PCSamplingDisable(&disable) == CUPTI_SUCCESS) {
            add(*c.at_end);
        } else {
            // CUPTI may still write to it.
            (void)c.at_end.release();
        }
        return true;
    });
}

}  // namespace orchard::profiling
