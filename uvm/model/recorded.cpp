// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A recording of the emulated device as an `access_source`; see recorded.hpp.
///
///     recorder     offsets from the beginning of the range, which may lie inside a VA block
///     here         addresses from the beginning of that VA block:  before_ + offset
///
///     | VA block 0                    | VA block 1              |
///     |<----- before_ ----->| offset 0 ...

#include "uvm/model/recorded.hpp"

#include <algorithm>
#include <vector>

#include "uvm/geometry/geometry.hpp"

namespace orchard::uvm_model {

namespace {

/// Returns the kind: loads and stores by themselves, and everything else, read-modify-writes, as an atomic.
access_kind kind_of(simt::emulated::access kind) {
    switch (kind) {
        case simt::emulated::access::load: return access_kind::read;
        case simt::emulated::access::store: return access_kind::write;
        default: return access_kind::atomic;
    }
}

/// Hands out the recorder's accesses, which are ordered by step and lane for each warp. The space is the whole VA
/// blocks up to the last byte accessed, so that the model's blocks are complete.
class recorded_source final : public access_source {
public:
    explicit recorded_source(const simt::emulated::access_recorder& recorder)
        : recorder_{recorder}, before_{recorder.begin() % segment_bytes}, steps_(std::max(recorder.warps(), 1u)) {
        std::uint64_t last = 0;
        for (std::uint32_t w = 0; w < recorder.warps(); ++w) {
            for (const simt::emulated::recorded_access& a : recorder.of(w)) {
                last = std::max(last, before_ + a.offset);
            }
        }
        bytes_ = (last / segment_bytes + 1) * segment_bytes;
    }

    [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
    [[nodiscard]] std::uint32_t warps() const override { return static_cast<std::uint32_t>(steps_.size()); }
    std::size_t step(std::uint32_t warp, std::uint64_t index, step_buffer out) override {
        if (warp >= recorder_.warps()) {
            return 0;
        }
        const auto accesses = recorder_.of(warp);
        std::size_t& at = steps_[warp];
        at = index == 0 ? 0 : at;
        // Skips the previous step; if the same step is requested again, it is found at its old position.
        for (; at < accesses.size() && accesses[at].step < index; ++at) {
        }
        std::size_t count = 0;
        for (; at + count < accesses.size() && accesses[at + count].step == index; ++count) {
            const simt::emulated::recorded_access& a = accesses[at + count];
            out[count] = {before_ + a.offset, a.lane, kind_of(a.kind)};
        }
        return count;
    }

private:
    const simt::emulated::access_recorder& recorder_;
    std::uint64_t before_;            // of the first VA block, before the range
    std::vector<std::size_t> steps_;  // of each warp: the beginning of the last requested step
    std::uint64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<access_source> recorded(const simt::emulated::access_recorder& recorder) {
    return std::make_unique<recorded_source>(recorder);
}

}  // namespace orchard::uvm_model
