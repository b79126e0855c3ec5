// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The bytes of a plain or packed file; see byte_source.hpp.
///
///     input    | handed out | available | room |        `refill` moves `available` to the front and fills the room
///              0            first       last   input_bytes
///
///     read     plain: copy      input -> caller
///              gzip:  unpack    input -> inflate -> caller; at a member's end `begin_next_member`
///
/// A gzip file may consist of several members, one after another, as `cat a.gz b.gz` or a parallel packer makes it.

#include "examples/graph/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <absl/strings/str_format.h>

namespace orchard::examples {

namespace {

// Bytes of the file that are read ahead, so that there are few system calls.
constexpr std::size_t input_bytes = 256 << 10;
constexpr unsigned char gzip_magic[2] = {0x1f, 0x8b};
constexpr int gzip_only = 16 + MAX_WBITS;  // zlib: adding 16 to the window's bits selects the gzip format

}  // namespace

struct byte_source::state {
    explicit state(int descriptor) : fd{descriptor} {}
    state(const state&) = delete;
    ~state() {
        if (unpacking) {
            inflateEnd(&stream);
        }
        ::close(fd);
    }

    /// Reads more bytes of the file until `input` is full or the file ends, so that afterwards nothing available means
    /// the end of the file. A read that a signal interrupts is repeated. Errors: DataLoss with the system's text.
    absl::Status refill() {
        std::memmove(input.data(), input.data() + first, last - first);
        last -= std::exchange(first, 0);
        while (!at_end && last < input.size()) {
            const ssize_t n = ::read(fd, input.data() + last, input.size() - last);
            // A signal came before any byte.
            if (n < 0 && errno == EINTR) {
                continue;
            }
            if (n < 0) {
                return absl::DataLossError(absl::StrFormat("cannot be read: %s", std::strerror(errno)));
            }
            // A pipe may return fewer bytes than fit: only 0 means the end.
            at_end = n == 0;
            last += static_cast<std::size_t>(n);
            file_bytes += static_cast<std::uint64_t>(n);
        }
        return absl::OkStatus();
    }
    /// Returns the number of bytes read from the file and not used yet.
    [[nodiscard]] std::size_t available() const { return last - first; }
    /// Returns whether the available bytes begin as a gzip member does. No text file begins with these two bytes.
    [[nodiscard]] bool gzip_begins() const {
        return available() >= sizeof gzip_magic &&
               std::memcmp(input.data() + first, gzip_magic, sizeof gzip_magic) == 0;
    }

    /// Fill `into` from a plain file, and from a gzip file.
    absl::StatusOr<std::size_t> copy(std::span<char> into);
    absl::StatusOr<std::size_t> unpack(std::span<char> into);
    /// Begins the next gzip member if the file goes on; leaves `member_ended` set at the end of the file.
    absl::Status begin_next_member();

    int fd;                        ///< closed by the destructor
    bool at_end = false;           ///< the file has no bytes beyond those in `input`
    bool unpacking = false;        ///< `stream` is initialized
    bool member_ended = false;     ///< the check of this gzip member passed; another member may follow
    std::uint64_t file_bytes = 0;  ///< read from the file so far, for error messages
    std::size_t first = 0;         ///< the available bytes of `input` begin here
    std::size_t last = 0;          ///< and end here
    z_stream stream{};             ///< zlib's state of the member being unpacked
    std::array<unsigned char, input_bytes> input;
};

absl::StatusOr<std::size_t> byte_source::state::copy(std::span<char> into) {
    std::size_t done = 0;
    while (done < into.size()) {
        if (available() == 0) {
            if (absl::Status s = refill(); !s.ok()) {
                return s;
            }
            if (available() == 0) {
                break;
            }
        }
        const std::size_t n = std::min(available(), into.size() - done);
        std::memcpy(into.data() + done, input.data() + first, n);
        first += n;
        done += n;
    }
    return done;
}

absl::Status byte_source::state::begin_next_member() {
    // The two bytes of the magic may lie on both sides of the end of the input.
    if (available() < sizeof gzip_magic) {
        if (absl::Status s = refill(); !s.ok()) {
            return s;
        }
    }
    if (available() == 0) {
        return absl::OkStatus();
    }
    if (!gzip_begins()) {
        return absl::DataLossError(absl::StrFormat(
            "the gzip data is followed by something else (byte %u is 0x%02x); cut it off or pack the file again",
            file_bytes - available(), input[first]));
    }
    inflateReset(&stream);
    member_ended = false;
    return absl::OkStatus();
}

/// Unpacks until `into` is full or the file ends. zlib checks the length and the checksum of each member at its end,
/// and the result Z_STREAM_END says that they are right. A file that ends inside a member is an error and not a short
/// graph.
absl::StatusOr<std::size_t> byte_source::state::unpack(std::span<char> into) {
    stream.next_out = reinterpret_cast<Bytef*>(into.data());
    stream.avail_out = static_cast<uInt>(into.size());
    while (stream.avail_out != 0) {
        if (member_ended) {
            if (absl::Status s = begin_next_member(); !s.ok()) {
                return s;
            }
            // No further member: the file has ended.
            if (member_ended) {
                break;
            }
        }
        if (available() == 0) {
            if (absl::Status s = refill(); !s.ok()) {
                return s;
            }
        }
        if (available() == 0) {
            return absl::DataLossError(absl::StrFormat(
                "the gzip data ends early, after %u bytes of the file (truncated); copy or download it again",
                file_bytes));
        }
        // The input may have moved in `refill`, so that zlib gets its place anew each time.
        stream.next_in = input.data() + first;
        stream.avail_in = static_cast<uInt>(available());
        const int result = inflate(&stream, Z_NO_FLUSH);
        first = last - stream.avail_in;
        if (result != Z_OK && result != Z_STREAM_END) {
            return absl::DataLossError(
                absl::StrFormat("the gzip data is damaged before byte %u of the file (%s); copy or download it again",
                                file_bytes - available(), stream.msg != nullptr ? stream.msg : zError(result)));
        }
        member_ended = result == Z_STREAM_END;
    }
    return into.size() - stream.avail_out;
}

byte_source::byte_source(std::unique_ptr<state> s) : state_{std::move(s)} {}
byte_source::byte_source(byte_source&&) noexcept = default;
byte_source& byte_source::operator=(byte_source&&) noexcept = default;
byte_source::~byte_source() = default;

/// Opening a folder succeeds, and only reading it would fail; the check of its own gives an error with a remedy. The
/// first bytes, not the name, decide whether the file is packed.
absl::StatusOr<byte_source> byte_source::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return absl::NotFoundError(absl::StrFormat("%s: no such file", path));
    }
    if (fd < 0) {
        return absl::UnknownError(absl::StrFormat("%s: cannot be opened: %s", path, std::strerror(errno)));
    }
    auto s = std::make_unique<state>(fd);
    struct stat about {};
    if (::fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
        return absl::InvalidArgumentError(absl::StrFormat("%s: is a folder; give a file in it", path));
    }
    if (absl::Status status = s->refill(); !status.ok()) {
        return absl::UnknownError(absl::StrFormat("%s: %s", path, std::string(status.message())));
    }
    if (s->gzip_begins()) {
        if (inflateInit2(&s->stream, gzip_only) != Z_OK) {
            return absl::ResourceExhaustedError(absl::StrFormat("%s: zlib gets no memory", path));
        }
        s->unpacking = true;
    }
    return byte_source(std::move(s));
}

absl::StatusOr<std::size_t> byte_source::read(std::span<char> into) {
    return state_->unpacking ? state_->unpack(into) : state_->copy(into);
}

}  // namespace orchard::examples
