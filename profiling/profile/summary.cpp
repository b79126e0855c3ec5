// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Sums records up; summary.hpp has the interface.
///
///     summarise
///       add_kernels     by name; times are sorted at the end
///       add_unified     by kind and cause, and by owner (owner_of)
///       add_memory      by operation
///       add_samples     by function
///       check_pages     for each process (page_ledger.hpp)

#include "profiling/profile/summary.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/heap/profiled_heap.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::profiling {
namespace {

/// Returns the text of a number of CUPTI's, or "cause 9".
std::string word_of(std::span<const char* const> words, std::uint32_t number) {
    return number < words.size() ? words[number] : absl::StrCat("cause ", number);
}

constexpr const char* transfer_causes[] = {"unknown",  "call of the program", "demand", "prefetch",
                                           "eviction", "access counters"};
constexpr const char* accesses[] = {"unknown", "read", "write", "atomic", "prefetch"};
constexpr const char* mapping_causes[] = {"unknown", "coherence", "thrashing", "policy", "no memory", "eviction"};
constexpr const char* copies[] = {"unknown",          "host to device", "device to host",  "host to array",
                                  "array to host",    "array to array", "array to device", "device to array",
                                  "device to device", "host to host",   "peer to peer"};
constexpr std::uint32_t eviction = 4;

/// Returns what a segment was used for, in words.
std::string owner_text(std::uint8_t owner) {
    switch (owner) {
        case segment_owner::unused: return "segments never used";
        case segment_owner::freed: return "segments free at the end";
        case segment_owner::chunk: return "chunks";
        case segment_owner::portions: return "portions";
        default: break;
    }
    const std::uint32_t of_class = owner - std::uint32_t{segment_owner::first_slab};
    return owner >= segment_owner::first_slab && of_class < class_count
               ? absl::StrCat("pages of ", format_bytes(class_bytes(of_class)))
               : absl::StrCat("use ", owner);
}

/// Returns the heap that had `address` at that time; if none had, the last one that had it at any time; null: none.
const recorded_heap* heap_at(const std::vector<recorded_heap>& heaps, std::uint64_t address, std::uint64_t time_ns) {
    const recorded_heap* found = nullptr;
    for (const recorded_heap& heap : heaps) {
        if (address < heap.about.base || address - heap.about.base >= heap.about.bytes) {
            continue;
        }
        found = &heap;
        if (heap.about.opened_ns <= time_ns && (heap.closed_ns == 0 || time_ns <= heap.closed_ns)) {
            return found;
        }
    }
    return found;
}

/// Sums of all processes, with the tables that are sorted at the end.
class summer {
public:
    void add(const recorded_process& p) {
        result_.pids.push_back(p.pid);
        for (const kernel_record& r : p.kernels) {
            add_kernel(r, p.names[r.name]);
        }
        for (const unified_record& r : p.unified) {
            add_unified(r);
            add_owner(r, p.heaps);
        }
        for (const memory_record& r : p.memory) {
            add_memory(r);
        }
        for (const sample_record& r : p.samples) {
            samples_[p.names[r.name]] += r.samples;
        }
        for (const problem& one : p.problems) {
            add_problem(one);
        }
        const ledger_findings pages = check_pages(p.unified);
        result_.pages.missing_to_host += pages.missing_to_host;
        result_.pages.missing_to_device += pages.missing_to_device;
        result_.pages.not_checked += pages.not_checked;
        result_.pages.on_device_at_end += pages.on_device_at_end;
        first_heap_ += p.heaps.size();
        result_.heaps += p.heaps.size();
        add_end(p);
    }

    summary finish() {
        for (auto& [name, kernel] : kernels_) {
            result_.kernels.push_back(finished(name, kernel));
        }
        const auto by = [](auto member) {
            return [member](const auto& a, const auto& b) { return a.*member > b.*member; };
        };
        std::stable_sort(result_.kernels.begin(), result_.kernels.end(), by(&kernel_row::total_ns));
        for (auto& [key, row] : unified_) {
            result_.unified.push_back(row);
        }
        for (auto& [name, row] : owners_) {
            result_.owners.push_back(row);
        }
        std::stable_sort(result_.owners.begin(), result_.owners.end(), [](const owner_row& a, const owner_row& b) {
            return a.to_device_bytes + a.to_host_bytes > b.to_device_bytes + b.to_host_bytes;
        });
        for (auto& [key, row] : memory_) {
            result_.memory.push_back(row);
        }
        for (const auto& [name, count] : samples_) {
            std::string readable = readable_name(name);
            const bool allocator = is_allocator(readable);
            result_.samples.push_back({std::move(readable), count, allocator});
        }
        std::stable_sort(result_.samples.begin(), result_.samples.end(), by(&sample_row::samples));
        return std::move(result_);
    }

private:
    struct kernel_sum {
        kernel_row row;
        std::vector<std::uint64_t> times;
    };

    void add_kernel(const kernel_record& r, const std::string& name) {
        kernel_sum& sum = kernels_[name];
        kernel_row& row = sum.row;
        if (row.launches++ != 0) {
            row.same_shape = row.same_shape && std::equal(r.grid, r.grid + 3, row.last.grid) &&
                             std::equal(r.block, r.block + 3, row.last.block);
        }
        row.last = r;
        // CUPTI gives no times where it had no memory for them.
        if (r.start_ns == 0 || r.end_ns < r.start_ns) {
            ++row.without_time;
            return;
        }
        sum.times.push_back(r.end_ns - r.start_ns);
    }

    static kernel_row finished(const std::string& name, kernel_sum& sum) {
        kernel_row row = sum.row;
        row.name = readable_name(name);
        std::sort(sum.times.begin(), sum.times.end());
        for (const std::uint64_t t : sum.times) {
            row.total_ns += t;
        }
        if (!sum.times.empty()) {
            row.least_ns = sum.times.front();
            row.median_ns = sum.times[(sum.times.size() - 1) / 2];
            row.most_ns = sum.times.back();
        }
        return row;
    }

    void add_unified(const unified_record& r) {
        const std::string cause = cause_of(r);
        unified_row& row = unified_[{r.kind, cause}];
        row.kind = r.kind;
        row.cause = cause;
        ++row.records;
        switch (r.kind) {
            case unified_kind::device_fault: row.groups += r.value; break;
            case unified_kind::host_fault:  // its value is an address
            case unified_kind::throttling: break;
            default: row.bytes += r.value;
        }
        // The others have no end.
        const bool lasts = r.kind != unified_kind::host_fault && r.kind != unified_kind::thrashing &&
                           r.kind != unified_kind::remote_map;
        row.time_ns += lasts && r.end_ns > r.start_ns ? r.end_ns - r.start_ns : 0;
    }

    void add_owner(const unified_record& r, const std::vector<recorded_heap>& heaps) {
        const recorded_heap* heap = heap_at(heaps, r.address, r.start_ns);
        std::string name = "no heap of Orchard";
        if (heap != nullptr) {
            const std::uint64_t segment = (r.address - heap->about.base) / heap->about.segment_bytes;
            name = absl::StrCat("heap ", first_heap_ + heap->about.number, ": ",
                                segment < heap->owners.size() ? owner_text(heap->owners[segment]) : "use not known");
        }
        owner_row& row = owners_[name];
        row.owner = name;
        switch (r.kind) {
            case unified_kind::to_device: row.to_device_bytes += r.value; break;
            case unified_kind::to_host:
                row.to_host_bytes += r.value;
                row.evicted_bytes += r.flags == eviction ? r.value : 0;
                break;
            case unified_kind::device_fault: row.device_fault_groups += r.value; break;
            case unified_kind::host_fault: ++row.host_faults; break;
            case unified_kind::thrashing: row.thrashing_bytes += r.value; break;
            default: break;
        }
    }

    void add_memory(const memory_record& r) {
        std::string what = "fill";
        switch (r.what) {
            case memory_operation::copy: what = absl::StrCat("copy, ", word_of(copies, r.copy_kind)); break;
            case memory_operation::set: break;
            case memory_operation::pool_created: what = "pool created"; break;
            case memory_operation::pool_destroyed: what = "pool destroyed"; break;
            case memory_operation::pool_trimmed: what = "pool trimmed"; break;
        }
        memory_row& row = memory_[{r.what, r.copy_kind}];
        row.what = what;
        ++row.count;
        row.bytes += r.bytes;
        row.time_ns += r.end_ns > r.start_ns ? r.end_ns - r.start_ns : 0;
    }

    void add_problem(const problem& one) {
        for (problem_row& row : result_.problems) {
            if (row.code == one.code && row.text == one.text) {
                ++row.processes;
                return;
            }
        }
        result_.problems.push_back({one.code, one.text, 1});
    }

    void add_end(const recorded_process& p) {
        if (!p.end) {
            ++result_.unfinished;
            return;
        }
        result_.dropped_records += p.end->dropped;
        result_.left_out_records += p.end->left_out;
        result_.unread_bytes += p.end->unread_bytes;
        result_.all_samples += p.end->samples;
        result_.dropped_samples += p.end->dropped_samples;
    }

    summary result_;
    std::uint64_t first_heap_ = 0;  ///< heaps of the processes before
    std::map<std::string, kernel_sum> kernels_;
    std::map<std::pair<unified_kind, std::string>, unified_row> unified_;
    std::map<std::string, owner_row> owners_;
    std::map<std::pair<memory_operation, std::uint32_t>, memory_row> memory_;
    std::map<std::string, std::uint64_t> samples_;
};

}  // namespace

std::string cause_of(const unified_record& record) {
    switch (record.kind) {
        case unified_kind::to_device:
        case unified_kind::to_host:
        case unified_kind::between_devices: return word_of(transfer_causes, record.flags);
        case unified_kind::device_fault: return word_of(accesses, record.flags);
        case unified_kind::remote_map: return word_of(mapping_causes, record.flags);
        default: return "";
    }
}

std::string_view name_of(unified_kind kind) {
    switch (kind) {
        case unified_kind::to_device: return "to the device";
        case unified_kind::to_host: return "to the host";
        case unified_kind::host_fault: return "faults of the host";
        case unified_kind::device_fault: return "faults of the device";
        case unified_kind::thrashing: return "thrashing";
        case unified_kind::throttling: return "throttling";
        case unified_kind::remote_map: return "mapped remotely";
        case unified_kind::between_devices: return "between devices";
    }
    return "unknown";
}

std::uint64_t summary::bytes(unified_kind direction) const {
    std::uint64_t sum = 0;
    for (const unified_row& row : unified) {
        sum += row.kind == direction ? row.bytes : 0;
    }
    return sum;
}

std::uint64_t summary::allocator_samples() const {
    std::uint64_t sum = 0;
    for (const sample_row& row : samples) {
        sum += row.is_allocator ? row.samples : 0;
    }
    return sum;
}

bool summary::has(problem_code code) const {
    return std::any_of(problems.begin(), problems.end(), [&](const problem_row& row) { return row.code == code; });
}

summary summarise(std::span<const recorded_process> processes) {
    summer all;
    for (const recorded_process& p : processes) {
        all.add(p);
    }
    return all.finish();
}

/// The demangler's time grows with the names that substitutions make of a short one, so that only usual lengths get
/// there.
std::string readable_name(const std::string& name) {
    constexpr std::size_t longest = 8192;
    std::string result = name;
    if (name.size() <= longest && name.starts_with("_Z")) {
        int status = 0;
        const std::unique_ptr<char, decltype(&std::free)> text(
            abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
        if (status == 0 && text != nullptr) {
            result = text.get();
        }
    }
    std::replace_if(
        result.begin(), result.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f; }, '?');
    return result;
}

/// The name ends where the parameters begin: at the first "(" outside template arguments. What the function returns
/// stands before it, if it is a template's.
bool is_allocator(std::string_view readable) {
    constexpr std::string_view unnamed = "(anonymous namespace)";
    int depth = 0;
    std::size_t begin = 0;
    std::size_t end = readable.size();
    for (std::size_t i = 0; i < readable.size(); ++i) {
        const char c = readable[i];
        if (readable.substr(i, unnamed.size()) == unnamed) {
            i += unnamed.size() - 1;
            continue;
        }
        depth += c == '<' ? 1 : c == '>' ? -1 : 0;
        if (depth == 0 && c == ' ') {
            begin = i + 1;
        } else if (depth == 0 && c == '(') {
            end = i;
            break;
        }
    }
    const std::string_view name = readable.substr(begin, end - begin);
    if (name.starts_with("orchard::device::") || name.starts_with("orchard::heap_ref::") ||
        name.starts_with("orchard_")) {
        return true;
    }
    constexpr std::string_view plain[] = {"malloc", "free",   "operator new", "operator delete",
                                          "new",    "delete", "new[]",        "delete[]"};
    return std::find(std::begin(plain), std::end(plain), name) != std::end(plain);
}

}  // namespace orchard::profiling
