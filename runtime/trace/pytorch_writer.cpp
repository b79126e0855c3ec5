// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/trace/pytorch_writer.hpp"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/trace/followed_blocks.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard {
namespace {

/// Writes Python's pickle, protocol 2, of dictionaries, lists, texts and numbers, without references.
class pickle {
public:
    explicit pickle(std::ostream& out) : out_{out} { out_ << "\x80\x02"; }

    // A dictionary or list is empty first; `items` begins what is put into it, and an end puts it there.
    pickle& dictionary() { return put("}("); }
    pickle& end_dictionary() { return put("u"); }
    pickle& list() { return put("]("); }
    pickle& end_list() { return put("e"); }
    pickle& text(std::string_view value) {
        out_ << 'X';
        little_endian(value.size(), 4);
        out_ << value;
        return *this;
    }
    /// A positive number: LONG1, with a byte for the sign.
    pickle& number(std::uint64_t value) {
        out_ << '\x8a' << '\x09';
        little_endian(value, 8);
        out_.put('\0');
        return *this;
    }
    pickle& member(std::string_view name, std::uint64_t value) { return text(name).number(value); }
    pickle& member(std::string_view name, std::string_view value) { return text(name).text(value); }
    void end() { out_ << '.'; }

private:
    pickle& put(std::string_view code) {
        out_ << code;
        return *this;
    }
    void little_endian(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) {
            out_.put(static_cast<char>(value >> 8 * i));
        }
    }

    std::ostream& out_;
};

class pytorch_writer final : public trace_converter {
public:
    pytorch_writer(const trace_info& info, const std::map<std::uint32_t, std::string>& names, std::ostream& out)
        : info_{info}, names_{names}, to_{out} {
        to_.dictionary().text("device_traces").list().list();
        // Blocks are drawn inside a segment alone.
        put_entry("segment_alloc", info.base, info.range, info.start_ns, 0);
    }

    void take(const std::vector<event>& events) override {
        for (const event& e : events) {
            using effect = followed_blocks::effect;
            const followed_blocks::change c = blocks_.take(e);
            if (c.what == effect::freed || c.what == effect::doubled) {
                put_entry("free_requested", info_.base + e.at, c.before.bytes, e.time_ns, c.before.tag);
                put_entry("free_completed", info_.base + e.at, c.before.bytes, e.time_ns, c.before.tag);
            }
            if (c.what == effect::allocated || c.what == effect::doubled) {
                put_entry("alloc", info_.base + e.at, c.after.bytes, e.time_ns, c.after.tag);
                end_ = std::max(end_, e.at + e.bytes);
            }
        }
    }

    void finish() override {
        to_.end_list().end_list();
        put_segments();
        to_.end_dictionary();
        to_.end();
    }

private:
    void put_frames(std::uint32_t tag) {
        to_.text("frames").list();
        if (tag != 0) {
            const auto name = names_.find(tag);
            to_.dictionary()
                .member("filename", name != names_.end() ? name->second : absl::StrCat("tag ", tag))
                .member("line", 0)
                .member("name", "malloc")
                .end_dictionary();
        }
        to_.end_list();
    }
    void put_entry(std::string_view action, std::uint64_t address, std::uint64_t bytes, std::uint64_t time_ns,
                   std::uint32_t tag) {
        to_.dictionary()
            .member("action", action)
            .member("addr", address)
            .member("size", bytes)
            .member("stream", 0)
            .member("time_us", time_ns / 1000);
        put_frames(tag);
        to_.end_dictionary();
    }
    void put_block(std::uint64_t at, std::uint64_t bytes, std::uint64_t requested, bool in_use, std::uint32_t tag) {
        to_.dictionary()
            .member("address", info_.base + at)
            .member("size", bytes)
            .member("requested_size", requested)
            .member("state", in_use ? "active_allocated" : "inactive");
        put_frames(tag);
        to_.end_dictionary();
    }

    /// Writes the heap as one segment: its blocks in the order of their addresses, and what lies between them. A block
    /// ends where the next one begins, as interleaved arrays of lanes begin one byte after the other.
    void put_segments() {
        std::vector<std::pair<std::uint64_t, live_block>> all(blocks_.blocks().begin(), blocks_.blocks().end());
        std::ranges::sort(all, {}, [](const auto& b) { return b.first; });
        const std::uint64_t total = (end_ + segment_bytes - 1) / segment_bytes * segment_bytes;
        std::uint64_t used = 0;
        for (const auto& [at, b] : all) {
            used += b.bytes;
        }
        to_.text("segments").list().dictionary();
        to_.member("device", 0)
            .member("address", info_.base)
            .member("total_size", total)
            .member("allocated_size", used)
            .member("active_size", used)
            .member("requested_size", used)
            .member("stream", 0)
            .member("segment_type", "large");
        put_frames(0);
        to_.text("blocks").list();
        std::uint64_t at = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto& [begin, b] = all[i];
            if (begin > at) {
                put_block(at, begin - at, 0, false, 0);
            }
            const std::uint64_t next = i + 1 < all.size() ? all[i + 1].first : total;
            const std::uint64_t bytes = std::min(b.bytes, next - begin);
            put_block(begin, bytes, b.bytes, true, b.tag);
            at = begin + bytes;
        }
        if (at < total) {
            put_block(at, total - at, 0, false, 0);
        }
        to_.end_list().end_dictionary().end_list();
    }

    const trace_info& info_;
    const std::map<std::uint32_t, std::string>& names_;
    pickle to_;
    followed_blocks blocks_;
    std::uint64_t end_ = 0;
};

}  // namespace

std::unique_ptr<trace_converter> make_pytorch_writer(const trace_info& info,
                                                     const std::map<std::uint32_t, std::string>& names,
                                                     std::ostream& out) {
    return std::make_unique<pytorch_writer>(info, names, out);
}

}  // namespace orchard
