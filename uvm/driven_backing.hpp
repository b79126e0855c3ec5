// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <memory>
#include <utility>

#include "uvm/backing.hpp"
#include "uvm/metadata_count.hpp"

namespace orchard::detail {

/// A backing whose metadata, mailbox and copies are a memory driver's.
class driven_backing : public backing {
public:
    explicit driven_backing(std::unique_ptr<memory_driver> driver) : driver_{std::move(driver)} {}

    absl::StatusOr<void*> allocate_metadata(std::size_t bytes) override {
        return metadata_use_.add(driver_->allocate(bytes), bytes);
    }
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override {
        return metadata_use_.add(driver_->allocate_host_visible(bytes), bytes);
    }
    [[nodiscard]] void* stream() const override { return driver_->stream(); }
    absl::Status read(void* to, const void* from, std::size_t n) override { return driver_->read(to, from, n); }
    absl::Status write(void* to, const void* from, std::size_t n) override { return driver_->write(to, from, n); }

protected:
    [[nodiscard]] memory_driver& driver() const { return *driver_; }
    /// Bytes of metadata, counted.
    metadata_count metadata_use_;

private:
    std::unique_ptr<memory_driver> driver_;
};

}  // namespace orchard::detail
