// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The reader of the records of `orchard profile`. An input is a file; it is read as it is, and again with the checksums
// of its blocks set right, so that the records are reached. What can be read is summed up and printed.

#include <cstring>

#include "profiling/profile/record_file.hpp"
#include "profiling/profile/report.hpp"
#include "profiling/profile/summary.hpp"
#include "tests/fuzz/target.hpp"

namespace orchard::fuzz {
namespace {

using namespace profiling;

/// Returns `file` with the magic word and the checksums that it should have.
std::string sealed(std::string file) {
    if (file.size() < sizeof(file_header)) {
        return file;
    }
    std::memcpy(file.data(), file_magic, sizeof(file_magic));
    std::memcpy(file.data() + sizeof(file_magic), &file_version, sizeof(file_version));
    for (std::size_t at = sizeof(file_header); at + sizeof(block_header) <= file.size();) {
        block_header header{};
        std::memcpy(&header, file.data() + at, sizeof(header));
        const std::size_t left = file.size() - at - sizeof(header);
        if (header.bytes > left) {
            break;
        }
        header.checksum = checksum_of(std::string_view(file).substr(at + sizeof(header), header.bytes));
        std::memcpy(file.data() + at, &header, sizeof(header));
        at += sizeof(header) + header.bytes;
    }
    return file;
}

void try_file(const std::string& bytes) {
    const absl::StatusOr<recorded_process> read = parse_records(bytes);
    if (!read.ok()) {
        expect_clear(read.status());
        expect(absl::IsDataLoss(read.status()) || absl::IsUnimplemented(read.status()),
               absl::StrCat("an error of its own: ", read.status().ToString()));
        return;
    }
    const summary all = summarise(std::vector{*read, *read});
    std::uint64_t launches = 0;
    for (const kernel_row& row : all.kernels) {
        launches += row.launches;
        expect(row.least_ns <= row.median_ns && row.median_ns <= row.most_ns, "times that are not in order");
    }
    expect(launches == 2 * read->kernels.size(), "launches were lost in the sums");
    for (const char c : to_text(all, {})) {
        expect(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f), "a character that moves the cursor");
    }
    expect(!to_json(all, {}).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).empty(), "no JSON");
}

}  // namespace
}  // namespace orchard::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    orchard::fuzz::try_file(bytes);
    orchard::fuzz::try_file(orchard::fuzz::sealed(bytes));
    return 0;
}
