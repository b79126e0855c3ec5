// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The lowest layer of the graph readers: the bytes of a file, whether it is packed or not.
///
///     file --read(2)--> byte_source --inflate, if gzip--> line_reader --> number_line --> edges
///                       256 KiB at a time                 lines           columns
///
/// A large file never lies in memory as a whole. A pipe works as well as a file, since nothing goes back.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace orchard::examples {

/// Reads the bytes of a file as a stream. Unpacks a file that begins as gzip does; it may consist of several members.
class byte_source {
public:
    /// Opens `path`: a file or a pipe. Errors name the path: `NotFound` for a missing file, `InvalidArgument` for a
    /// folder, `Unknown` with the system's text for a file that cannot be read.
    static absl::StatusOr<byte_source> open(const std::string& path);

    byte_source(byte_source&&) noexcept;
    byte_source& operator=(byte_source&&) noexcept;
    ~byte_source();

    /// Fills `into` as far as possible and returns the number of bytes; 0 at the end. Errors: `DataLoss` for gzip data
    /// that ends early, is damaged, or is followed by other data.
    absl::StatusOr<std::size_t> read(std::span<char> into);

private:
    /// The open file, the bytes read and not handed out, and the state of zlib. It lives behind a pointer, so that
    /// zlib's header stays in the source file, and zlib's own pointers stay valid when a `byte_source` is moved.
    struct state;
    explicit byte_source(std::unique_ptr<state> s);
    std::unique_ptr<state> state_;
};

}  // namespace orchard::examples
