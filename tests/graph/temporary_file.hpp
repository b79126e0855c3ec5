// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace orchard::examples::test {

/// A file with the given content, named after the running test and removed with this object.
class temporary_file {
public:
    temporary_file(const std::string& name, std::string_view content) {
        const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
        std::string unique = std::string(test->test_suite_name()) + "." + test->name() + "." + name;
        for (char& c : unique) {
            c = c == '/' ? '_' : c;
        }
        path_ = std::filesystem::temp_directory_path() / unique;
        std::ofstream(path_, std::ios::binary) << content;
    }
    temporary_file(const temporary_file&) = delete;
    ~temporary_file() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

/// `text` as one gzip member.
inline std::string gzipped(std::string_view text) {
    z_stream z{};
    EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string packed(deflateBound(&z, text.size()) + 32, '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(packed.data());
    z.avail_out = static_cast<uInt>(packed.size());
    EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
    packed.resize(z.total_out);
    deflateEnd(&z);
    return packed;
}

}  // namespace orchard::examples::test
