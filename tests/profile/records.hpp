// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the tests of `orchard profile` share: files of records that a test makes.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "profiling/profile/record_writer.hpp"

namespace orchard::profiling::test {

/// A folder that is removed with all that is in it.
class folder {
public:
    folder() {
        static int number = 0;
        path_ = std::filesystem::temp_directory_path() /
                ("orchard_profile_test_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
        std::filesystem::create_directory(path_);
    }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;
    ~folder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

inline file_header header(std::uint32_t pid = 7) {
    file_header h{};
    std::memcpy(h.magic, file_magic, sizeof(file_magic));
    h.version = file_version;
    h.pid = pid;
    h.cupti_version = 130001;
    return h;
}

inline std::string content_of(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

/// Returns the bytes of a file that `write` fills; with `ends`, it has an end.
inline std::string file_with(const std::function<void(record_writer&)>& write, bool ends = true,
                             std::uint64_t limit = 1u << 20) {
    const folder in;
    record_writer to;
    if (to.open(in / "a", header(), limit) != 0) {
        return "";
    }
    write(to);
    ends ? to.finish(99) : to.abandon();
    return content_of(in / "a");
}

inline kernel_record kernel(std::uint32_t name, std::uint64_t start, std::uint64_t end, std::uint32_t blocks = 1) {
    return {start, end, name, 0, {blocks, 1, 1}, {256, 1, 1}, 40, 0, 0, 7};
}
inline unified_record unified(unified_kind kind, std::uint64_t start, std::uint64_t address, std::uint64_t value,
                              std::uint32_t flags = 2) {
    return {start, start + 5, address, value, kind, flags, 0, 0};
}

}  // namespace orchard::profiling::test
