// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace orchard::test {

/// A file of its own in the folder for temporary files, which is removed with this object.
class trace_file {
public:
    trace_file() {
        std::string name = std::filesystem::temp_directory_path() / "orchard_trace_XXXXXX";
        ::close(::mkstemp(name.data()));
        path_ = name;
    }
    trace_file(const trace_file&) = delete;
    trace_file& operator=(const trace_file&) = delete;
    ~trace_file() { std::filesystem::remove(path_); }

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string content() const {
        std::ostringstream text;
        text << std::ifstream(path_, std::ios::binary).rdbuf();
        return text.str();
    }

private:
    std::string path_;
};

}  // namespace orchard::test
