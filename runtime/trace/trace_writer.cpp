// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/trace/trace_writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace orchard {

using namespace detail::trace;

namespace {
constexpr std::size_t most_tags = 65'536;
}  // namespace

trace_writer::trace_writer(std::string path, std::FILE* file, std::uint64_t limit)
    : path_{std::move(path)}, file_{file}, limit_{limit} {}

trace_writer::~trace_writer() {
    if (file_ != nullptr) {
        finish(0, {}, {}).IgnoreError();
    }
}

absl::StatusOr<std::unique_ptr<trace_writer>> trace_writer::open(const std::string& path, const trace_info& info,
                                                                 std::uint64_t limit) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
    std::FILE* const file = fd >= 0 ? ::fdopen(fd, "wb") : nullptr;
    if (file == nullptr) {
        const int why = errno;
        if (fd >= 0) {
            ::close(fd);
        }
        return absl::InvalidArgumentError(
            absl::StrFormat("trace: %s cannot be written: %s", absl::CEscape(path), std::strerror(why)));
    }
    auto made = std::unique_ptr<trace_writer>(new trace_writer(path, file, limit));
    std::string prefix(magic);
    for (int shift = 0; shift < 32; shift += 8) {
        prefix.push_back(static_cast<char>(version >> shift));
    }
    made->write(absl::StrCat(prefix, section(header_kind, 0, encode(info))));
    return made;
}

/// A section is written as a whole or not at all, so that the file stays within its limit and is valid there.
void trace_writer::take(std::span<const event> events) {
    for (const event& e : events) {
        if (is_full_) {
            ++counts_.beyond_limit;
            continue;
        }
        if (e.kind == event_kind::block_tagged && e.detail != 0 && tags_.size() < most_tags) {
            tags_.insert(e.detail);
        }
        encode(e, state_, content_);
        ++in_section_;
        if (content_.size() >= full_section) {
            end_section();
        }
    }
}

void trace_writer::end_section() {
    if (in_section_ == 0) {
        return;
    }
    if (written_ + section_bytes + content_.size() > limit_) {
        is_full_ = true;
        counts_.beyond_limit += in_section_;
    } else {
        write(section(events_kind, in_section_, content_));
        counts_.events += in_section_;
    }
    content_.clear();
    in_section_ = 0;
    state_ = {};
}

/// After an error nothing more is written.
void trace_writer::write(std::string_view text) {
    if (!status_.ok()) {
        return;
    }
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
        status_ = absl::UnknownError(absl::StrFormat("trace: %s: %s", absl::CEscape(path_), std::strerror(errno)));
    }
    written_ += text.size();
}

absl::Status trace_writer::finish(std::uint64_t lost_notes, const trace_waits& waits,
                                  const std::map<std::uint32_t, std::string>& names) {
    if (file_ == nullptr) {
        return status_;
    }
    end_section();
    counts_.lost_notes = lost_notes;
    counts_.waits = waits;
    counts_.names = names;
    write(section(footer_kind, 0, encode(counts_)));
    if (std::fclose(std::exchange(file_, nullptr)) != 0 && status_.ok()) {
        status_ = absl::UnknownError(absl::StrFormat("trace: %s: %s", absl::CEscape(path_), std::strerror(errno)));
    }
    return status_;
}

}  // namespace orchard
