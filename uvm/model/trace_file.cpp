// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Traces in memory; see trace_file.hpp. Everything that a file may have wrong is found when it is parsed:
///
///     check_header     magic, version, lengths, checksum, number of warps
///     find_blocks      the blocks' own headers; blocks sorted by warp
///     check_steps      decodes every step; compares the counts with the header's
///
/// A reader then decodes the same steps again, without a check that could fail.

#include "uvm/model/trace_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"

namespace orchard::uvm_model {

namespace {

/// Returns DataLoss, with the fault and the remedy.
absl::Status damaged(std::string_view what) {
    return absl::DataLossError(absl::StrFormat("no valid trace: %s; record it again", what));
}

/// Returns the errors that can be found before the body is read. The magic comes first, so that a short file of another
/// kind gets that error, and not one about its length. The checksum comes before the number of warps, which means
/// nothing if a byte has changed.
absl::Status check_header(std::string_view bytes) {
    if (bytes.substr(0, trace_magic.size()) != trace_magic) {
        return damaged(absl::StrFormat("it does not begin with %s", trace_magic));
    }
    if (bytes.size() < trace_header_bytes) {
        return damaged(absl::StrFormat("%d bytes, and a header has %d", bytes.size(), trace_header_bytes));
    }
    const trace_header h = header_from(bytes);
    if (h.version != trace_version) {
        return absl::UnimplementedError(absl::StrFormat(
            "a trace of format version %d; this program reads version %d: record it again", h.version, trace_version));
    }
    if (h.body_bytes == unfinished_body) {
        return damaged("its writer did not finish it");
    }
    const std::size_t body = bytes.size() - trace_header_bytes;
    if (h.body_bytes != body) {
        return damaged(absl::StrFormat("a body of %d bytes; its header says %d", body, h.body_bytes));
    }
    const std::string_view before_checksum = bytes.substr(0, trace_header_bytes - 8);
    const std::uint64_t sum = checksum(before_checksum, checksum(bytes.substr(trace_header_bytes)));
    if (sum != get_u64(bytes.substr(before_checksum.size()))) {
        return damaged("its checksum is wrong");
    }
    if (h.warps == 0 || h.warps > max_trace_warps) {
        return damaged(absl::StrFormat("%d warps; there are 1 to %d", h.warps, max_trace_warps));
    }
    return absl::OkStatus();
}

/// A longer trace would fill the memory of many machines.
constexpr std::uint64_t max_trace_bytes = std::uint64_t{16} << 30;

/// Appends the next `most` bytes of a file to `bytes`; fewer at its end, or after an error.
void read_up_to(std::istream& in, std::uint64_t most, std::string* bytes) {
    // In parts, as a header may promise more than there is.
    constexpr std::uint64_t at_once = 16 << 20;
    while (most != 0 && in.good()) {
        const std::size_t before = bytes->size();
        const std::uint64_t part = std::min(most, at_once);
        bytes->resize(before + part);
        in.read(bytes->data() + before, static_cast<std::streamsize>(part));
        bytes->resize(before + static_cast<std::size_t>(in.gcount()));
        most -= part;
    }
}

/// Returns the error in `errno`, with the path: NotFound for a missing file, otherwise Unavailable.
absl::Status system_error(std::string_view what, const std::string& path) {
    const int error = errno;
    const std::string text = absl::StrFormat("%s: %s: %s", path, what, std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(text) : absl::UnavailableError(text);
}

}  // namespace

/// The bytes, and the position of each warp's steps in them.
struct trace::image {
    /// Consecutive steps of one warp.
    struct block {
        std::uint32_t warp;
        std::uint64_t steps;     ///< as the block's header says; `check_steps` compares
        std::string_view bytes;  ///< in `image::bytes`; the image is therefore never copied
    };

    std::string bytes;
    trace_header header;
    std::vector<block> blocks;         // by warp; the blocks of one warp in order
    std::vector<std::uint32_t> first;  // index of each warp's first block, and the end

    /// Finds the blocks. Errors: faults in the data around the steps.
    absl::Status find_blocks();
    /// Decodes all steps. Errors: faults in the steps.
    [[nodiscard]] absl::Status check_steps() const;
};

absl::Status trace::image::find_blocks() {
    trace_bytes in(std::string_view(bytes).substr(trace_header_bytes));
    while (!in.empty()) {
        const std::uint64_t warp = in.number();
        const std::uint64_t steps = in.number();
        const std::string_view of_block = in.take(in.number());
        if (in.fault() != nullptr) {
            return damaged(in.fault());
        }
        if (warp >= header.warps) {
            return damaged(absl::StrFormat("steps of warp %d; it has %d warps", warp, header.warps));
        }
        blocks.push_back({static_cast<std::uint32_t>(warp), steps, of_block});
    }
    // Stable, because the blocks of a warp stand in the file in the order of its steps.
    std::stable_sort(blocks.begin(), blocks.end(), [](const block& a, const block& b) { return a.warp < b.warp; });
    first.assign(header.warps + std::size_t{1}, 0);
    // Counts of blocks become positions: `first[w + 1]` is the number of blocks of warps 0 to w.
    for (const block& b : blocks) {
        ++first[b.warp + 1];
    }
    for (std::size_t w = 0; w < header.warps; ++w) {
        first[w + 1] += first[w];
    }
    return absl::OkStatus();
}

absl::Status trace::image::check_steps() const {
    std::uint64_t steps = 0;
    std::uint64_t accesses = 0;
    warp_history history;
    std::array<access, max_lanes> buffer;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        if (b == 0 || blocks[b].warp != blocks[b - 1].warp) {
            // A new warp: its first step refers to nothing.
            history = {};
        }
        trace_bytes in(blocks[b].bytes);
        std::uint64_t here = 0;
        for (; !in.empty(); ++here) {
            const std::size_t count = decode_step(history, header.space_bytes, in, buffer);
            if (count == 0) {
                return damaged(absl::StrFormat("warp %d: %s", blocks[b].warp, in.fault()));
            }
            accesses += count;
        }
        if (here != blocks[b].steps) {
            return damaged(absl::StrFormat("warp %d: a block of %d steps, not %d", blocks[b].warp, here,  //
                                           blocks[b].steps));
        }
        steps += here;
    }
    if (steps != header.steps || accesses != header.accesses) {
        return damaged(absl::StrFormat("%d accesses in %d steps; its header says %d in %d", accesses, steps,
                                       header.accesses, header.steps));
    }
    return absl::OkStatus();
}

/// Decodes each warp's steps on request. A warp has a cursor from its first request on. The last decoded step is kept,
/// because it may be requested again; step 0 starts the warp anew.
class trace::reader final : public access_source {
public:
    explicit reader(std::shared_ptr<const image> of) : image_{std::move(of)}, warps_(image_->header.warps) {}

    [[nodiscard]] std::uint64_t bytes() const override { return image_->header.space_bytes; }
    [[nodiscard]] std::uint32_t warps() const override { return image_->header.warps; }
    std::size_t step(std::uint32_t warp, std::uint64_t index, step_buffer out) override {
        if (image_->first[warp] == image_->first[warp + 1]) {
            return 0;
        }
        std::unique_ptr<cursor>& at = warps_[warp];
        if (at == nullptr || (index == 0 && at->next > 1)) {
            at = std::make_unique<cursor>(image_->first[warp]);
        }
        if (index == at->next) {
            advance(*at, image_->first[warp + 1]);
        }
        std::copy_n(at->step.begin(), at->count, out.begin());
        return at->count;
    }

private:
    /// The position of a warp in its blocks, and the step that was decoded last.
    struct cursor {
        explicit cursor(std::uint32_t first_block) : block{first_block} {}

        std::uint32_t block;     // the next block to be opened
        std::uint64_t next = 0;  // index of the step after `step`
        trace_bytes bytes{{}};   // of the open block
        std::size_t count = 0;   // 0: the warp has ended
        std::array<access, max_lanes> step{};
        warp_history history;
    };

    /// Decodes the next step of a warp whose blocks end before block `end`. Sets `count` to 0 at the warp's end, and
    /// again at each later call.
    void advance(cursor& c, std::uint32_t end) const {
        while (c.bytes.empty() && c.block != end) {
            c.bytes = trace_bytes(image_->blocks[c.block++].bytes);
        }
        c.count = c.bytes.empty() ? 0 : decode_step(c.history, image_->header.space_bytes, c.bytes, c.step);
        ++c.next;
    }

    std::shared_ptr<const image> image_;
    std::vector<std::unique_ptr<cursor>> warps_;
};

absl::StatusOr<trace> trace::parse(std::string bytes) {
    if (absl::Status s = check_header(bytes); !s.ok()) {
        return s;
    }
    const auto found = std::make_shared<image>();
    found->bytes = std::move(bytes);
    found->header = header_from(found->bytes);
    absl::Status status = found->find_blocks();
    if (status.ok()) {
        status = found->check_steps();
    }
    if (!status.ok()) {
        return status;
    }
    return trace(found);
}

/// Reads the header first: a file of another kind may be of any length, and need not be read to be rejected.
absl::StatusOr<trace> trace::load(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
        return absl::InvalidArgumentError(absl::StrFormat("%s: is a folder; name a trace in it", path));
    }
    errno = 0;
    std::ifstream in(path, std::ios::binary);
    std::string bytes;
    read_up_to(in, trace_header_bytes, &bytes);
    if (bytes.size() == trace_header_bytes && bytes.starts_with(trace_magic)) {
        const std::uint64_t body = header_from(bytes).body_bytes;
        if (body != unfinished_body && body > max_trace_bytes) {
            return absl::ResourceExhaustedError(absl::StrFormat(
                "%s: a trace of %d bytes; at most %d are read; record fewer steps", path, body, max_trace_bytes));
        }
        // One byte more shows a file that is too long.
        read_up_to(in, body == unfinished_body ? 0 : body + 1, &bytes);
    }
    if (!in.good() && !in.eof()) {
        return system_error("cannot read a trace", path);
    }
    absl::StatusOr<trace> found = parse(std::move(bytes));
    if (!found.ok()) {
        return absl::Status(found.status().code(), absl::StrFormat("%s: %s", path, found.status().message()));
    }
    return found;
}

/// Writes a file in memory and parses it, so that such a trace has passed the same checks as one that was loaded.
absl::StatusOr<trace> trace::from(access_source& source) {
    std::ostringstream out(std::ios::binary);
    absl::StatusOr<trace_writer> writer = trace_writer::create(out, source.bytes(), source.warps());
    if (!writer.ok()) {
        return writer.status();
    }
    std::array<access, max_lanes> buffer;
    for (std::uint32_t w = 0; w < source.warps(); ++w) {
        std::size_t count = 0;
        for (std::uint64_t i = 0; (count = source.step(w, i, buffer)) != 0; ++i) {
            if (absl::Status s = writer->add(w, std::span(buffer).first(count)); !s.ok()) {
                return s;
            }
        }
    }
    if (absl::Status s = writer->finish(); !s.ok()) {
        return s;
    }
    return parse(std::move(out).str());
}

const trace_header& trace::header() const { return image_->header; }
const std::string& trace::encoded() const { return image_->bytes; }
std::unique_ptr<access_source> trace::source() const { return std::make_unique<reader>(image_); }

}  // namespace orchard::uvm_model
