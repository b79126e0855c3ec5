// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Writes a file of records (record_format.hpp). It stands on nothing but the C++ library, since it is a part of the
/// library that runs in other people's programs: it throws nothing, prints nothing and ends nothing.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "profiling/profile/record_format.hpp"

namespace orchard::profiling {

/// A file of records that grows. Not thread-safe.
class record_writer {
public:
    record_writer() = default;
    record_writer(const record_writer&) = delete;
    record_writer& operator=(const record_writer&) = delete;
    ~record_writer();

    /// Creates the file with its header. Returns 0, or the system's error number.
    /// @param limit  most bytes of records; `left_out` counts those beyond. Names, heaps and the end are always written
    int open(const std::string& path, const file_header& header, std::uint64_t limit);
    [[nodiscard]] bool is_open() const { return fd_ >= 0; }

    /// Returns the index of a name, and writes it if it is new. Cost: a look into a table.
    std::uint32_t name(std::string_view text);

    /// Append records. Each call is one block, so that many records are given at once.
    void write(std::span<const kernel_record> records) { write_counted(block_kind::kernels, records, end_.kernels); }
    void write(std::span<const unified_record> records) { write_counted(block_kind::unified, records, end_.unified); }
    void write(std::span<const memory_record> records) { write_counted(block_kind::memory, records, end_.memory); }
    void write(std::span<const sample_record> records);
    void write_problem(problem_code code, std::string_view text);
    void write_heap(const heap_record& heap);
    void write_owners(const owners_header& header, std::span<const std::uint8_t> owners);

    /// Counts for the end.
    void add_dropped(std::uint64_t records) { end_.dropped += records; }
    void add_unread(std::uint64_t bytes) { end_.unread_bytes += bytes; }
    void add_samples(std::uint64_t all, std::uint64_t dropped) {
        end_.samples += all;
        end_.dropped_samples += dropped;
    }

    /// Writes the end and closes the file.
    void finish(std::uint64_t end_ns);
    /// Closes the file as it is, for a process that was forked from the one that opened it.
    void abandon();

private:
    template <class Record>
    void write_counted(block_kind kind, std::span<const Record> records, std::uint64_t& count) {
        const std::string_view bytes(reinterpret_cast<const char*>(records.data()), records.size_bytes());
        if (records.empty()) {
            return;
        }
        if (written_ + bytes.size() > limit_) {
            end_.left_out += records.size();
            return;
        }
        written_ += bytes.size();
        write_block(kind, bytes, {});
        count += records.size();
    }
    void write_block(block_kind kind, std::string_view first, std::string_view second);

    int fd_ = -1;
    std::uint64_t limit_ = 0;
    std::uint64_t written_ = 0;
    end_record end_{};
    std::unordered_map<std::string, std::uint32_t> names_;
    std::string buffer_;  ///< of the block that is written
};

}  // namespace orchard::profiling
