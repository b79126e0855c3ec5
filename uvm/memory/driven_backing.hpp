// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The base class of the backings that stand on a memory driver.
///
///     backing
///       driven_backing        metadata, mailbox and copies from a memory_driver
///         elastic_backing       user memory from the driver as well, extent by extent
///         managed_backing       user memory from managed_memory
///         fixed_backing         user memory from the caller
///       cuda_backing          one cudaMalloc, and cuda_memory for the rest; no driver
///       emulated_backing      one mmap; no driver

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "uvm/geometry/metadata_count.hpp"
#include "uvm/memory/backing.hpp"
#include "uvm/memory/ended_drivers.hpp"

namespace orchard::detail {

/// A backing that uses a memory driver for metadata, mailbox and copies: elastic, managed and fixed memory of the
/// caller. It says nothing about the memory of the super chunk, which each derived class gets in its own way.
class driven_backing : public backing {
public:
    /// Owns the driver from here on.
    explicit driven_backing(std::unique_ptr<memory_driver> driver) : driver_{std::move(driver)} {}
    /// Ends the driver, unless a derived class has already done so by `end`. If a copy that exceeded its deadline is
    /// still under way, the driver lives on in a list of the process (`end_driver`).
    ~driven_backing() override { end_driver(std::move(driver_)); }

    // Both count the bytes for the statistic `metadata_bytes`.
    absl::StatusOr<void*> allocate_metadata(std::size_t bytes) override {
        return metadata_use_.add(driver_->allocate(bytes), bytes);
    }
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override {
        return metadata_use_.add(driver_->allocate_host_visible(bytes), bytes);
    }
    /// Returns the driver's warnings, and one if the requested spill tier is not available.
    [[nodiscard]] std::vector<std::string> warnings() const override {
        std::vector<std::string> all = driver_->warnings();
        if (const std::uint64_t budget = use().host_budget; budget != 0 && !driver_->has_host_tier()) {
            all.push_back(
                absl::StrFormat("host_budget is %d bytes, but the GPU's driver maps no host memory into reserved "
                                "addresses: nothing spills to the host; raise the option capacity instead",
                                budget));
        }
        return all;
    }
    // Copies and the stream are the driver's own. `elastic_backing` overrides `read`, since parts of its metadata may
    // have no memory yet.
    [[nodiscard]] void* stream() const override { return driver_->stream(); }
    absl::Status read(void* to, const void* from, std::size_t n) override { return driver_->read(to, from, n); }
    absl::Status write(void* to, const void* from, std::size_t n) override { return driver_->write(to, from, n); }

protected:
    [[nodiscard]] memory_driver& driver() const { return *driver_; }
    /// For destructors: calls `release` with the driver and destroys the driver, once no call accesses its memory.
    /// `release` may run after this object has ended, so that it must own all that it needs.
    void end(driver_release release) { end_driver(std::move(driver_), std::move(release)); }
    /// Bytes of metadata and of host-visible memory, counted. A derived class adds the metadata that it commits itself.
    metadata_count metadata_use_;

private:
    std::unique_ptr<memory_driver> driver_;
};

}  // namespace orchard::detail
