// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Reads a file of records; record_file.hpp has the interface.

#include "profiling/profile/record_file.hpp"

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/input_file.hpp"

namespace orchard::profiling {
namespace {

/// Returns the first bytes of `payload` as a `T`. The payload is not aligned.
template <class T>
T first_of(std::string_view payload) {
    T value;
    std::memcpy(&value, payload.data(), sizeof(T));
    return value;
}

/// Reads the blocks of a file, one after the other.
class block_reader {
public:
    explicit block_reader(std::string_view file) : file_{file} {}

    absl::StatusOr<recorded_process> read() {
        absl::Status status = read_header();
        while (status.ok() && at_ < file_.size()) {
            status = result_.end ? damaged("something follows the end") : read_block();
        }
        if (status.ok()) {
            status = check_end();
        }
        return status.ok() ? absl::StatusOr<recorded_process>(std::move(result_)) : status;
    }

private:
    [[nodiscard]] absl::Status damaged(std::string_view what) const {
        return absl::DataLossError(absl::StrFormat("byte %d: %s; profile the program again", at_, what));
    }

    absl::Status read_header() {
        if (file_.size() < sizeof(file_header)) {
            return absl::DataLossError(absl::StrFormat(
                "%d bytes are no file of records, whose header has %d; name one that `orchard profile --keep` has kept",
                file_.size(), sizeof(file_header)));
        }
        const auto header = first_of<file_header>(file_);
        if (std::memcmp(header.magic, file_magic, sizeof(file_magic)) != 0) {
            return absl::DataLossError(
                absl::StrCat("it begins with \"", absl::CEscape(std::string(header.magic, sizeof(header.magic))),
                             "\" and not with \"ORCHPROF\"; name a file that `orchard profile --keep` has kept"));
        }
        if (header.version != file_version) {
            return absl::UnimplementedError(
                absl::StrFormat("it has version %d of the records, and this program reads version %d; use the orchard "
                                "that wrote it",
                                header.version, file_version));
        }
        result_.pid = header.pid;
        result_.start_ns = header.start_ns;
        result_.cupti_version = header.cupti_version;
        at_ = sizeof(file_header);
        return absl::OkStatus();
    }

    absl::Status read_block() {
        if (file_.size() - at_ < sizeof(block_header)) {
            return damaged("it is cut off inside a block");
        }
        const auto header = first_of<block_header>(file_.substr(at_));
        if (header.bytes > most_block_bytes) {
            return damaged(absl::StrFormat("a block of %d bytes is larger than any", header.bytes));
        }
        if (file_.size() - at_ - sizeof(header) < header.bytes) {
            return damaged("it is cut off inside a block");
        }
        const std::string_view payload = file_.substr(at_ + sizeof(header), header.bytes);
        if (checksum_of(payload) != header.checksum) {
            return damaged("a block has another checksum than it was written with");
        }
        absl::Status status = take(header.kind, payload);
        at_ += sizeof(header) + payload.size();
        return status;
    }

    absl::Status take(block_kind kind, std::string_view payload) {
        switch (kind) {
            case block_kind::name: return take_name(payload);
            case block_kind::kernels:
                return take_records(payload, result_.kernels, [&](const kernel_record& r) { return is_name(r.name); });
            case block_kind::unified:
                return take_records(payload, result_.unified, [](const unified_record& r) {
                    return r.kind >= unified_kind::to_device && r.kind <= unified_kind::between_devices;
                });
            case block_kind::memory:
                return take_records(payload, result_.memory, [](const memory_record& r) {
                    return static_cast<std::uint32_t>(r.what) < memory_operations;
                });
            case block_kind::samples:
                return take_records(payload, result_.samples, [&](const sample_record& r) { return is_name(r.name); });
            case block_kind::problem: return take_problem(payload);
            case block_kind::heap: return take_heap(payload);
            case block_kind::owners: return take_owners(payload);
            case block_kind::end:
                if (payload.size() != sizeof(end_record)) {
                    return damaged("the end has another size");
                }
                result_.end = first_of<end_record>(payload);
                return absl::OkStatus();
        }
        return damaged(absl::StrFormat("there is no block of kind %d", static_cast<std::uint32_t>(kind)));
    }

    [[nodiscard]] bool is_name(std::uint32_t index) const { return index < result_.names.size(); }

    template <class Record, class Valid>
    absl::Status take_records(std::string_view payload, std::vector<Record>& into, Valid valid) {
        if (payload.size() % sizeof(Record) != 0) {
            return damaged("a block ends within a record");
        }
        for (; !payload.empty(); payload.remove_prefix(sizeof(Record))) {
            const auto record = first_of<Record>(payload);
            if (!valid(record)) {
                return damaged("a record has a name or a kind that there is not");
            }
            into.push_back(record);
        }
        return absl::OkStatus();
    }

    absl::Status take_name(std::string_view payload) {
        if (payload.size() < sizeof(std::uint32_t) || first_of<std::uint32_t>(payload) != result_.names.size()) {
            return damaged("a name is not the next one");
        }
        result_.names.emplace_back(payload.substr(sizeof(std::uint32_t)));
        return absl::OkStatus();
    }

    absl::Status take_problem(std::string_view payload) {
        if (payload.size() < sizeof(problem_code)) {
            return damaged("a message has no code");
        }
        const auto code = first_of<problem_code>(payload);
        if (const auto number = static_cast<std::uint32_t>(code); number < 1 || number > problem_codes) {
            return damaged("a message has a code that there is not");
        }
        result_.problems.push_back({code, std::string(payload.substr(sizeof(code)))});
        return absl::OkStatus();
    }

    /// A range that begins or ends within a segment would make segments that are none.
    absl::Status take_heap(std::string_view payload) {
        if (payload.size() != sizeof(heap_record)) {
            return damaged("a heap has another size");
        }
        const auto heap = first_of<heap_record>(payload);
        if (heap.segment_bytes == 0 || heap.bytes % heap.segment_bytes != 0 || heap.base + heap.bytes < heap.base ||
            heap.number != result_.heaps.size()) {
            return damaged("a heap has a range that there is not, or is not the next one");
        }
        result_.heaps.push_back({heap, 0, {}});
        return absl::OkStatus();
    }

    absl::Status take_owners(std::string_view payload) {
        if (payload.size() < sizeof(owners_header)) {
            return damaged("the segments of a heap have no header");
        }
        const auto header = first_of<owners_header>(payload);
        payload.remove_prefix(sizeof(header));
        if (header.number >= result_.heaps.size() || payload.size() != header.segments) {
            return damaged("segments are of no heap, or not as many as it has");
        }
        recorded_heap& heap = result_.heaps[header.number];
        if (header.segments > heap.about.bytes / heap.about.segment_bytes) {
            return damaged("a heap has more segments than its range");
        }
        heap.closed_ns = header.closed_ns;
        heap.owners.assign(payload.begin(), payload.end());
        return absl::OkStatus();
    }

    absl::Status check_end() const {
        if (result_.end &&
            (result_.end->kernels != result_.kernels.size() || result_.end->unified != result_.unified.size() ||
             result_.end->memory != result_.memory.size())) {
            return damaged("there are not as many records as the end counts");
        }
        return absl::OkStatus();
    }

    std::string_view file_;
    std::size_t at_ = 0;
    recorded_process result_;
};

}  // namespace

absl::StatusOr<recorded_process> parse_records(std::string_view file) { return block_reader(file).read(); }

absl::StatusOr<recorded_process> read_records(const std::string& path) {
    auto in = detail::open_to_read(path);
    if (!in.ok()) {
        return in.status();
    }
    std::string file;  // by `read`: an iterator over the file's buffer would throw if a read fails
    for (char part[4096]; in->read(part, sizeof part) || in->gcount() > 0;) {
        file.append(part, static_cast<std::size_t>(in->gcount()));
    }
    if (in->bad()) {
        return absl::DataLossError(absl::StrCat(path, ": cannot be read to its end; copy it elsewhere"));
    }
    absl::StatusOr<recorded_process> result = parse_records(file);
    return result.ok() ? std::move(result)
                       : absl::Status(result.status().code(), absl::StrCat(path, ": ", result.status().message()));
}

}  // namespace orchard::profiling
