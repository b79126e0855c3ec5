// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Writes a file of records; record_writer.hpp has the interface.

#include "profiling/profile/record_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace orchard::profiling {
namespace {

/// Returns false if not all of `bytes` could be written, as on a full disk. The reader finds the missing end.
bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

template <class T>
std::string_view bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

record_writer::~record_writer() { abandon(); }

int record_writer::open(const std::string& path, const file_header& header, std::uint64_t limit) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600);
    if (fd < 0) {
        return errno;
    }
    if (!write_all(fd, bytes_of(header))) {
        const int error = errno;
        ::close(fd);
        return error;
    }
    fd_ = fd;
    limit_ = limit;
    return 0;
}

std::uint32_t record_writer::name(std::string_view text) {
    constexpr std::size_t longest = 64u << 10;  // of a name that templates make
    const auto index = static_cast<std::uint32_t>(names_.size());
    const auto [at, is_new] = names_.try_emplace(std::string(text.substr(0, longest)), index);
    if (is_new) {
        write_block(block_kind::name, bytes_of(index), at->first);
    }
    return at->second;
}

void record_writer::write(std::span<const sample_record> records) {
    if (!records.empty()) {
        write_block(block_kind::samples, {reinterpret_cast<const char*>(records.data()), records.size_bytes()}, {});
    }
}

void record_writer::write_problem(problem_code code, std::string_view text) {
    write_block(block_kind::problem, bytes_of(code), text);
}

void record_writer::write_heap(const heap_record& heap) { write_block(block_kind::heap, bytes_of(heap), {}); }

void record_writer::write_owners(const owners_header& header, std::span<const std::uint8_t> owners) {
    write_block(block_kind::owners, bytes_of(header), {reinterpret_cast<const char*>(owners.data()), owners.size()});
}

/// One call of the system for a block, so that a signal does not divide it.
void record_writer::write_block(block_kind kind, std::string_view first, std::string_view second) {
    if (fd_ < 0 || first.size() + second.size() > most_block_bytes) {
        return;
    }
    buffer_.assign(sizeof(block_header), '\0');
    buffer_.append(first).append(second);
    const std::string_view payload = std::string_view(buffer_).substr(sizeof(block_header));
    const block_header header{kind, static_cast<std::uint32_t>(payload.size()), checksum_of(payload), 0};
    std::memcpy(buffer_.data(), &header, sizeof(header));
    if (!write_all(fd_, buffer_)) {
        abandon();  // what follows half a block could not be read
    }
}

void record_writer::finish(std::uint64_t end_ns) {
    end_.end_ns = end_ns;
    write_block(block_kind::end, bytes_of(end_), {});
    abandon();
}

void record_writer::abandon() {
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

}  // namespace orchard::profiling
