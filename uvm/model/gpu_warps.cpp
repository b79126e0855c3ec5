// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The resident warps of a kernel; see gpu_warps.hpp.
///
///     advance                  for each warp that does not wait:
///       run                      steps until its clock passes `until`
///         attempt                  one step's accesses against the states of pages
///         send_faults              or finish_step
///     replay                   for each warp that waits: the missing pages again

#include "uvm/model/gpu_warps.hpp"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace orchard::uvm_model {
namespace {

/// Bits of a page's number in a word of states.
constexpr std::uint64_t word_shift = 6;
constexpr std::uint64_t page_shift = 12;  ///< bits of a byte's number in an OS page
static_assert(os_page_bytes == 1u << page_shift);

/// Returns the bit of a page in its word of states.
std::uint64_t bit_of(std::uint64_t page) { return std::uint64_t{1} << (page & 63); }

/// Marks the page as used if the access succeeds. Returns 0 if it faults, 1 on the GPU, 2 on host memory.
std::uint32_t try_access(page_states& s, std::uint64_t bit, bool write) {
    if (((write ? s.writable : s.readable) & bit) == 0) {
        return 0;
    }
    s.used |= bit;
    return (s.gpu & bit) != 0 ? 1 : 2;
}

}  // namespace

/// A kernel with fewer warps than the GPU has slots uses as many slots as it has warps, and an SM takes `block_warps`
/// of them at a time: with 8 warps a block, 132 SMs and 256 warps, slots 0 to 7 are on SM 0 and slots 248 to 255 on SM
/// 31.
gpu_warps::gpu_warps(const calibration& machine, managed_space& space, fault_buffer& buffer, access_source& source,
                     access_counters* counters, nanoseconds start)
    : machine_{machine},
      space_{space},
      buffer_{buffer},
      source_{source},
      counters_{counters},
      pages_{space.bytes() >> page_shift},
      step_ns_{whole(machine.step_ns)},
      utlbs_(machine.utlbs),
      allowed_{machine.sms},
      end_{start},
      link_start_{static_cast<double>(start)} {
    const std::uint64_t room = std::uint64_t{machine.sms} * machine.sm_warps;
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(room, source.warps()));
    missing_.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t sm = i / machine.block_warps % machine.sms;
        slots_.push_back({.warp = i, .sm = sm, .utlb = sm % machine.utlbs, .ready = start});
        running_.push_back(i);
    }
    next_warp_ = count;
}

nanoseconds gpu_warps::next_ready() const {
    nanoseconds first = never;
    for (const std::uint32_t i : running_) {
        first = held(slots_[i]) ? first : std::min(first, slots_[i].ready);
    }
    return first;
}

/// Slots are dealt to SMs in order, so that the last SM with warps is the last of the first round.
std::uint32_t gpu_warps::sms() const {
    const std::uint64_t blocks = (slots_.size() + machine_.block_warps - 1) / machine_.block_warps;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(machine_.sms, blocks));
}

void gpu_warps::allow(std::uint32_t sms, nanoseconds now) {
    for (const std::uint32_t i : running_) {
        slot& s = slots_[i];
        if (held(s) && s.sm < sms) {
            s.ready = std::max(s.ready, now);
        }
    }
    allowed_ = sms;
}

/// Keeps the slots that go on in `running_`; `run` has put the others into `waiting_`, or left them empty.
absl::Status gpu_warps::advance(nanoseconds until) {
    absl::Status status;
    std::size_t kept = 0;
    for (const std::uint32_t index : running_) {
        if (held(slots_[index]) || run(index, until, status)) {
            running_[kept++] = index;
        }
        if (!status.ok()) {
            return status;
        }
    }
    running_.resize(kept);
    // Work that the link has completed no longer counts; work that remains does.
    const auto now = static_cast<double>(until);
    if (link_start_ + link_busy_ < now) {
        link_start_ = now;
        link_busy_ = 0;
    }
    return status;
}

/// Runs the warps of one slot, one after another, up to `until`. Returns true if the slot still runs; false if its warp
/// waits, or if no warp is left for the slot, or after an error in `status`.
bool gpu_warps::run(std::uint32_t index, nanoseconds until, absl::Status& status) {
    slot& s = slots_[index];
    while (s.ready <= until) {
        const std::size_t lanes = source_.step(s.warp, s.step, lanes_);
        if (lanes == 0) {
            if (!next_warp(s)) {
                return false;
            }
            continue;
        }
        const std::uint32_t remote = attempt(s, missing_[index], lanes, status);
        if (!status.ok()) {
            return false;
        }
        if (s.missing != 0) {
            // Without counters the accesses to host memory of such a step are not counted.
            s.remote = counters_ != nullptr ? remote : 0;
            send_faults(s, missing_[index], s.ready);
            waiting_.push_back(index);
            return false;
        }
        finish_step(s, s.ready, remote);
    }
    return true;
}

/// Tries the accesses of a step. Puts distinct missing pages into `missing`, counted by `s.missing`, and returns the
/// number of accesses that reached host memory. Cost: consecutive lanes on one page are looked up once, as in a
/// coalesced access; counters count each lane.
std::uint32_t gpu_warps::attempt(slot& s, needs& missing, std::size_t lanes, absl::Status& status) {
    std::uint32_t remote = 0;
    std::uint64_t last_page = ~std::uint64_t{0};  // page of the previous access, and its result
    bool last_write = false;
    std::uint32_t last = 1;
    accesses_ += lanes;
    // The states of a large space do not fit the CPU's caches, so all lanes' lines are prefetched together.
    for (std::size_t i = 0; i < lanes; ++i) {
        if (const std::uint64_t page = lanes_[i].address >> page_shift; page < pages_) {
            __builtin_prefetch(&space_.states(page >> word_shift), 1);
        }
    }
    for (std::size_t i = 0; i < lanes; ++i) {
        const std::uint64_t page = lanes_[i].address >> page_shift;
        const bool write = lanes_[i].kind != access_kind::read;
        if (page != last_page || write != last_write) {
            if (page >= pages_) [[unlikely]] {
                status = absl::InvalidArgumentError(absl::StrFormat(
                    "paging model: warp %u, step %u, lane %u: address %u lies outside the managed space of %u bytes",
                    s.warp, s.step, lanes_[i].lane, lanes_[i].address, space_.bytes()));
                return 0;
            }
            last = try_access(space_.states(page >> word_shift), bit_of(page), write);
            last_page = page;
            last_write = write;
        }
        if (last != 1) [[unlikely]] {
            if (last == 2 && counters_ != nullptr && counters_->count(page)) {
                last = 0;
            }
            if (last == 2) {
                ++remote;
            } else {
                ++missed_;
                add_missing(s, missing, page, write);
            }
        }
    }
    return remote;
}

/// Notes that the step misses `page`. A page that several lanes miss is one raw fault, of a write if any lane writes.
void gpu_warps::add_missing(slot& s, needs& missing, std::uint64_t page, bool write) {
    for (std::uint32_t i = 0; i < s.missing; ++i) {
        if (missing[i].page == page) {
            missing[i].write = missing[i].write || write;
            return;
        }
    }
    missing[s.missing++] = {page, write};
}

/// Sends a fault for each missing page, while the micro-TLB has room. Entries of one micro-TLB are `fault_gap_ns` apart
/// and arrive `fault_ns` after the miss at the earliest. Pages without room are sent after the next replay.
void gpu_warps::send_faults(slot& s, const needs& missing, nanoseconds now) {
    utlb& u = utlbs_[s.utlb];
    for (std::uint32_t i = 0; i < s.missing && u.outstanding < machine_.utlb_faults; ++i) {
        u.last = std::max(now + whole(machine_.fault_ns), u.last + whole(machine_.fault_gap_ns));
        ++u.outstanding;
        buffer_.push({u.last, missing[i].page, missing[i].write});
    }
}

/// Ends a step at `now` plus its duration. Accesses to host memory queue on the link, which all warps share: each step
/// ends when the link has moved its bytes behind those of earlier steps, and `remote_ns` later.
void gpu_warps::finish_step(slot& s, nanoseconds now, std::uint32_t remote) {
    s.ready = now + step_ns_;
    if (remote != 0) [[unlikely]] {
        remote_ += remote;
        link_busy_ += 1e9 * remote * machine_.remote_access_bytes / machine_.remote_bytes_per_s;
        const double through = std::max(link_start_ + link_busy_, static_cast<double>(now));
        s.ready = std::max(s.ready, whole(through + machine_.remote_ns));
    }
    // A step takes some time, whatever the constants are; otherwise a warp would never reach the end of a slice.
    s.ready = std::max(s.ready, now + 1);
    ++s.step;
    ++steps_;
}

/// Gives the slot the next warp of the kernel, which begins when the last one ended. Returns false if none is left.
bool gpu_warps::next_warp(slot& s) {
    end_ = std::max(end_, s.ready);
    if (next_warp_ == source_.warps()) {
        return false;
    }
    s.warp = next_warp_++;
    s.step = 0;
    return true;
}

/// The micro-TLBs have no outstanding fault any more: entries that were serviced are done, and those that were flushed
/// or are stale are sent again if they are still needed.
void gpu_warps::replay(nanoseconds now) {
    for (utlb& u : utlbs_) {
        u.outstanding = 0;
    }
    std::size_t kept = 0;
    for (const std::uint32_t index : waiting_) {
        slot& s = slots_[index];
        needs& missing = missing_[index];
        std::uint32_t left = 0;
        std::uint32_t remote = std::exchange(s.remote, 0);
        for (std::uint32_t i = 0; i < s.missing; ++i) {
            const need n = missing[i];
            const std::uint32_t outcome = try_access(space_.states(n.page >> word_shift), bit_of(n.page), n.write);
            remote += outcome == 2 ? 1 : 0;
            if (outcome == 0) {
                missing[left++] = n;
            }
        }
        s.missing = left;
        if (left == 0) {
            finish_step(s, now, remote);
            running_.push_back(index);
        } else {
            remote_ += remote;
            send_faults(s, missing, now);
            waiting_[kept++] = index;
        }
    }
    waiting_.resize(kept);
}

void gpu_warps::add_to(result& r) const {
    r.accesses += accesses_;
    r.hits += accesses_ - missed_;
    r.steps += steps_;
    r.remote_accesses += remote_;
    r.remote_bytes += remote_ * machine_.remote_access_bytes;
}

}  // namespace orchard::uvm_model
