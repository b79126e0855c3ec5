// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Records what CUPTI reports; recorder.hpp has the interface.

#include "profiling/profile/injection/recorder.hpp"

#include <algorithm>
#include <cstddef>

namespace orchard::profiling {
namespace {

// The forms of records that CUPTI of CUDA 12.4 and later all begin with.
using kernel_activity = CUpti_ActivityKernel9;
using unified_activity = CUpti_ActivityUnifiedMemoryCounter2;
using copy_activity = CUpti_ActivityMemcpy5;
using fill_activity = CUpti_ActivityMemset4;
using pool_activity = CUpti_ActivityMemoryPool2;
#if CUPTI_API_VERSION >= 130000
static_assert(offsetof(kernel_activity, name) == offsetof(CUpti_ActivityKernel10, name) &&
              offsetof(kernel_activity, localMemoryPerThread) ==
                  offsetof(CUpti_ActivityKernel10, localMemoryPerThread));
static_assert(offsetof(unified_activity, flags) == offsetof(CUpti_ActivityUnifiedMemoryCounter3, flags));
static_assert(offsetof(copy_activity, deviceId) == offsetof(CUpti_ActivityMemcpy6, deviceId));
static_assert(offsetof(pool_activity, timestamp) == offsetof(CUpti_ActivityMemoryPool3, timestamp));
#endif

/// The index of the name comes later.
kernel_record record_of(const kernel_activity& k) {
    const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
    return {k.start,
            k.end,
            0,
            k.deviceId,
            {u(k.gridX), u(k.gridY), u(k.gridZ)},
            {u(k.blockX), u(k.blockY), u(k.blockZ)},
            k.registersPerThread,
            u(k.staticSharedMemory) + u(k.dynamicSharedMemory),
            k.localMemoryPerThread,
            k.streamId};
}

unified_record record_of(const unified_activity& u) {
    return {u.start, u.end, u.address, u.value, static_cast<unified_kind>(u.counterKind), u.flags, u.srcId, u.dstId};
}

memory_record record_of(const pool_activity& p) {
    memory_operation what = memory_operation::pool_created;
    if (p.memoryPoolOperationType == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED) {
        what = memory_operation::pool_destroyed;
    } else if (p.memoryPoolOperationType == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED) {
        what = memory_operation::pool_trimmed;
    }
    return {p.timestamp, p.timestamp, p.size, what, 0, p.deviceId, 0};
}

// Callbacks of C, which CUPTI calls; `active` is the process's recorder.
recorder* active = nullptr;
constexpr std::size_t buffer_bytes = 4u << 20;

/// Without a buffer CUPTI drops records, and counts them.
void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, buffer_bytes));
    *size = *buffer == nullptr ? 0 : buffer_bytes;
    *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    active->take_buffer(buffer, valid);
    std::free(buffer);
}

void CUPTIAPI at_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId what, const void* data) {
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        const auto* resource = static_cast<const CUpti_ResourceData*>(data);
        if (what == CUPTI_CBID_RESOURCE_MODULE_LOADED && resource != nullptr &&
            resource->resourceDescriptor != nullptr) {
            active->at_module(*static_cast<const CUpti_ModuleResourceData*>(resource->resourceDescriptor));
        }
        active->at_resource(what, resource == nullptr ? nullptr : resource->context);
    }
}

}  // namespace

bool recorder::begin(const recorder_settings& settings) {
    settings_ = settings;
    process_ = ::getpid();
    active = this;
    const std::string problem = cupti_.load(settings.cupti.c_str());
    file_header header{};
    std::copy(std::begin(file_magic), std::end(file_magic), header.magic);
    header.version = file_version;
    header.pid = static_cast<std::uint32_t>(process_);
    header.start_ns = problem.empty() ? now() : 0;
    header.cupti_version = cupti_.version;
    const std::string path = settings.folder + "/" + std::to_string(process_) + ".records";
    if (file_.open(path, header, settings.limit) != 0) {
        return false;
    }
    if (!problem.empty()) {
        tell(problem_code::no_cupti, problem);
        return true;
    }
    CUptiResult r = cupti_.ActivityRegisterCallbacks(give_buffer, ::orchard::profiling::take_buffer);
    CUpti_SubscriberHandle subscriber = nullptr;
    if (r == CUPTI_SUCCESS) {
        r = cupti_.Subscribe(&subscriber, at_callback, nullptr);
    }
    if (r != CUPTI_SUCCESS) {
        tell(problem_code::no_cupti, "CUPTI refuses to record: " + cupti_.text_of(r));
        return true;
    }
    for (const CUpti_CallbackIdResource what :
         {CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
          CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, CUPTI_CBID_RESOURCE_MODULE_LOADED,
          CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING}) {
        (void)cupti_.EnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, what);
    }
    records_ = true;
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, problem_code::no_kernels, "kernels");
    enable(CUPTI_ACTIVITY_KIND_MEMCPY, problem_code::no_memory, "copies");
    enable(CUPTI_ACTIVITY_KIND_MEMSET, problem_code::no_memory, "fills");
    enable(CUPTI_ACTIVITY_KIND_MEMORY_POOL, problem_code::no_memory, "memory pools");
    if (cupti_.ActivityFlushPeriod != nullptr) {
        constexpr std::uint32_t ms = 1000;  // what a killed process loses
        (void)cupti_.ActivityFlushPeriod(ms);
    }
    return true;
}

void recorder::tell(problem_code code, const std::string& text) {
    const std::scoped_lock lock(writes_);
    file_.write_problem(code, text);
}

void recorder::enable(CUpti_ActivityKind kind, problem_code otherwise, const char* of) {
    if (const CUptiResult r = cupti_.ActivityEnable(kind); r != CUPTI_SUCCESS) {
        tell(otherwise, std::string(of) + ": " + cupti_.text_of(r));
    }
}

/// CUPTI takes the configuration only after the driver has been initialised, and before the kind is enabled. Which
/// moment of a start is late enough depends on the release, so that it is tried at each until it succeeds.
void recorder::configure_unified(const char* when) {
    if (unified_ || cupti_.ActivityConfigureUnifiedMemoryCounter == nullptr) {
        return;
    }
    // The first four are those that every release knows.
    CUpti_ActivityUnifiedMemoryCounterConfig config[] = {
        {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
         CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD, 0, 1},
        {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
         CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH, 0, 1},
        {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
         CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT, 0, 1},
        {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
         CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT, 0, 1},
        {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
         CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING, 0, 1},
        {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
         CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING, 0, 1},
        {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
         CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP, 0, 1},
        {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
         CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD, 0, 1},
    };
    std::uint32_t count = std::size(config);
    CUptiResult r = cupti_.ActivityConfigureUnifiedMemoryCounter(config, count);
    if (r != CUPTI_SUCCESS) {
        count = 4;
        r = cupti_.ActivityConfigureUnifiedMemoryCounter(config, count);
    }
    if (r == CUPTI_SUCCESS) {
        r = cupti_.ActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
    }
    if (r != CUPTI_SUCCESS) {
        unified_problem_ = cupti_.text_of(r);
        return;
    }
    unified_ = true;
    if (count == 4) {
        tell(problem_code::note, "unified memory: this CUPTI does not report thrashing");
    }
    tell(problem_code::note, std::string("unified memory was recorded from ") + when + " on");
}

/// Also within another call of the recorder: CUPTI loads modules of its own, and says so, while it starts to sample.
void recorder::at_module(const CUpti_ModuleResourceData& module) {
    const std::scoped_lock lock(calls_);
    if (settings_.samples && module.pCubin != nullptr) {
        sampler_.load(cupti_, module.pCubin, module.cubinSize);
    }
}

void recorder::at_resource(CUpti_CallbackId what, CUcontext context) {
    const std::scoped_lock lock(calls_);
    if (inside_) {
        return;
    }
    inside_ = true;
    switch (what) {
        case CUPTI_CBID_RESOURCE_CU_INIT_FINISHED: configure_unified("the driver's start"); break;
        case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
            configure_unified("the first context");
            if (settings_.samples) {
                if (const std::string problem = sampler_.start(cupti_, context); !problem.empty()) {
                    tell(problem_code::no_samples, "samples of the program counter: " + problem);
                }
            }
            break;
        case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
            if (context != nullptr) {
                sampler_.stop(cupti_, context);
            }
            break;
        case CUPTI_CBID_RESOURCE_MODULE_LOADED:
        case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING: sampler_.collect(cupti_); break;
        default: break;
    }
    inside_ = false;
}

void recorder::take_buffer(std::uint8_t* buffer, std::size_t valid_bytes) {
    batch taken;
    CUpti_Activity* record = nullptr;
    CUptiResult r = CUPTI_SUCCESS;
    while (valid_bytes != 0 && (r = cupti_.ActivityGetNextRecord(buffer, valid_bytes, &record)) == CUPTI_SUCCESS) {
        taken.take(record);
    }
    std::uint64_t unread = 0;
    if (valid_bytes != 0 && r != CUPTI_ERROR_MAX_LIMIT_REACHED) {
        const auto* last = reinterpret_cast<std::uint8_t*>(record);
        unread = valid_bytes - static_cast<std::size_t>(last == nullptr ? 0 : last - buffer);
    }
    std::size_t dropped = 0;
    if (cupti_.ActivityGetNumDroppedRecords(nullptr, 0, &dropped) != CUPTI_SUCCESS) {
        dropped = 0;
    }
    const std::scoped_lock lock(writes_);
    for (std::size_t i = 0; i < taken.kernels.size(); ++i) {
        taken.kernels[i].name = file_.name(taken.names[i] == nullptr ? "(no name)" : taken.names[i]);
    }
    file_.add_unread(unread);
    file_.add_dropped(dropped);
    file_.write(taken.kernels);
    file_.write(taken.unified);
    file_.write(taken.memory);
}

void recorder::batch::take(const CUpti_Activity* record) {
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
            const auto& k = *reinterpret_cast<const kernel_activity*>(record);
            kernels.push_back(record_of(k));
            names.push_back(k.name);
            break;
        }
        case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: {
            const unified_record u = record_of(*reinterpret_cast<const unified_activity*>(record));
            // A kind of a later CUPTI has no meaning here.
            if (u.kind >= unified_kind::to_device && u.kind <= unified_kind::between_devices) {
                unified.push_back(u);
            }
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
            const auto& c = *reinterpret_cast<const copy_activity*>(record);
            memory.push_back({c.start, c.end, c.bytes, memory_operation::copy, c.copyKind, c.deviceId, 0});
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMSET: {
            const auto& f = *reinterpret_cast<const fill_activity*>(record);
            memory.push_back({f.start, f.end, f.bytes, memory_operation::set, 0, f.deviceId, 0});
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
            memory.push_back(record_of(*reinterpret_cast<const pool_activity*>(record)));
            break;
        default: break;
    }
}

void recorder::tell_heap(profiled_event event, const profiled_heap& heap) {
    const std::uint64_t time_ns = now();
    const std::scoped_lock lock(writes_);
    if (event == profiled_event::opened) {
        file_.write_heap({heap.base, heap.bytes, time_ns, static_cast<std::uint32_t>(heaps_.size()),
                          static_cast<std::uint32_t>(heap.segment_bytes)});
        heaps_.push_back(heap);
        return;
    }
    for (std::size_t number = 0; number < heaps_.size(); ++number) {
        if (heaps_[number].bytes != 0 && heaps_[number].base == heap.base) {
            const std::uint64_t segments = heap.owners == nullptr ? 0 : heap.bytes / heap.segment_bytes;
            file_.write_owners({time_ns, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(segments)},
                               {heap.owners, segments});
            heaps_[number].bytes = 0;
            return;
        }
    }
}

std::uint64_t recorder::now() const {
    std::uint64_t ns = 0;
    return cupti_.GetTimestamp != nullptr && cupti_.GetTimestamp(&ns) == CUPTI_SUCCESS ? ns : 0;
}

/// No lock is held while CUPTI gives the last buffers back.
void recorder::end() {
    if (::getpid() != process_) {
        file_.abandon();
        return;
    }
    if (records_) {
        (void)cupti_.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
        const std::scoped_lock lock(calls_);
        inside_ = true;  // and stays so: nothing is recorded any more
        sampler_.stop(cupti_, nullptr);
        if (!unified_ && !unified_problem_.empty()) {
            tell(problem_code::no_unified, "unified memory: " + unified_problem_);
        }
    }
    const std::uint64_t time_ns = now();
    const std::scoped_lock lock(writes_);
    std::vector<sample_record> samples;
    for (const auto& [name, count] : sampler_.functions()) {
        samples.push_back({count, file_.name(name), 0});
    }
    file_.write(samples);
    file_.add_samples(sampler_.all(), sampler_.dropped());
    file_.finish(time_ns);
}

}  // namespace orchard::profiling
