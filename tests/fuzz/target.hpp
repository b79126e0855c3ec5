// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the fuzz targets share. A target is one source that defines `LLVMFuzzerTestOneInput`. libFuzzer calls it
/// where clang built it, tests/fuzz/main.cpp in every other build (docs/reliability.md).

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

/// Tries one input. Returns 0. A fault ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace orchard::fuzz {

/// Ends the process: the code under test has the fault `text`.
[[noreturn]] inline void fail(std::string_view text) {
    std::fprintf(stderr, "fault: %.*s\n", static_cast<int>(text.size()), text.data());
    std::abort();
}

inline void expect(bool right, std::string_view otherwise) {
    if (!right) {
        fail(otherwise);
    }
}

/// Returns true if a message is one line of printable text, as every message of Orchard's must be.
inline bool is_one_line(std::string_view text) {
    return !text.empty() && std::none_of(text.begin(), text.end(),
                                         [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

inline void expect_clear(const absl::Status& status) {
    const std::string_view text(status.message().data(), status.message().size());
    expect(is_one_line(text), absl::StrCat("an error that is not one printable line: ", status.ToString()));
}

/// A file in memory, for readers that take a path.
class memory_file {
public:
    memory_file() : fd_{::memfd_create("orchard_fuzz", MFD_CLOEXEC)}, path_{absl::StrCat("/proc/self/fd/", fd_)} {
        expect(fd_ >= 0, "memfd_create failed");
    }
    memory_file(const memory_file&) = delete;
    memory_file& operator=(const memory_file&) = delete;
    ~memory_file() { ::close(fd_); }

    void replace(std::string_view content) const {
        const bool done = ::ftruncate(fd_, 0) == 0 &&
                          ::pwrite(fd_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
        expect(done, "the file in memory could not be written");
    }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    int fd_;
    std::string path_;
};

}  // namespace orchard::fuzz
