// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/trace/perfetto_writer.hpp"

#include <algorithm>
#include <utility>

#include "runtime/trace/followed_blocks.hpp"
#include "runtime/trace/varint.hpp"

namespace orchard {
namespace {

// Field numbers of Perfetto's messages.
namespace packet {
constexpr int in_trace = 1, timestamp = 8, sequence = 10, track_event = 11, track_descriptor = 60;
}
namespace track {
constexpr int uuid = 1, name = 2, parent = 5, counter = 8, counter_unit = 3;
constexpr std::uint64_t unit_count = 2, unit_bytes = 3;
}  // namespace track
namespace track_event {
constexpr int annotations = 4, type = 9, uuid = 11, name = 23, counter_value = 30;
constexpr std::uint64_t slice_begin = 1, slice_end = 2, instant = 3, counter = 4;
constexpr int annotation_uint = 3, annotation_name = 10;
}  // namespace track_event

/// A message of Protocol Buffers.
class message {
public:
    message& number(int field, std::uint64_t value) {
        detail::put_varint(text_, static_cast<std::uint64_t>(field) << 3);
        detail::put_varint(text_, value);
        return *this;
    }
    message& text(int field, std::string_view value) {
        detail::put_varint(text_, static_cast<std::uint64_t>(field) << 3 | 2);
        detail::put_varint(text_, value.size());
        text_.append(value);
        return *this;
    }
    message& inner(int field, const message& value) { return text(field, value.text_); }
    [[nodiscard]] const std::string& bytes() const { return text_; }

private:
    std::string text_;
};

/// The tracks, with their names; the number of a track is its place here, from 1.
enum class lane : std::uint64_t { heap = 1, service, growth, kernels, live_bytes, live_blocks, granted, committed };
constexpr std::uint64_t lanes = 8;

class perfetto_writer final : public trace_converter {
public:
    perfetto_writer(const trace_info& info, std::ostream& out) : last_ns_{info.start_ns}, out_{out} {
        constexpr const char* names[lanes] = {"Orchard heap", "service", "growth",      "kernels",
                                              "blocks (B)",   "blocks",  "granted (B)", "committed (B)"};
        for (std::uint64_t i = 1; i <= lanes; ++i) {
            message t;
            t.number(track::uuid, i).text(track::name, names[i - 1]);
            if (i > 1) {
                t.number(track::parent, 1);
            }
            if (i >= static_cast<std::uint64_t>(lane::live_bytes)) {
                const bool counts = i == static_cast<std::uint64_t>(lane::live_blocks);
                t.inner(track::counter,
                        message().number(track::counter_unit, counts ? track::unit_count : track::unit_bytes));
            }
            put(message().inner(packet::track_descriptor, t));
        }
    }

    void take(const std::vector<event>& events) override {
        for (const event& e : events) {
            if (e.time_ns >= last_ns_ + counter_interval_ns) {
                put_counters();
                last_ns_ = e.time_ns;
            }
            take(e);
        }
    }
    void finish() override { put_counters(); }

private:
    static constexpr std::uint64_t counter_interval_ns = 1000;
    static constexpr std::uint64_t sequence = 1;

    void put(const message& p) { out_ << message().inner(packet::in_trace, p).bytes(); }

    static message event_on(lane on, std::uint64_t type) {
        message m;
        m.number(track_event::type, type).number(track_event::uuid, static_cast<std::uint64_t>(on));
        return m;
    }
    void put_at(std::uint64_t time_ns, const message& what) {
        put(message()
                .number(packet::timestamp, time_ns)
                .number(packet::sequence, sequence)
                .inner(packet::track_event, what));
    }
    static message annotation(std::string_view name, std::uint64_t value) {
        return message().text(track_event::annotation_name, name).number(track_event::annotation_uint, value);
    }
    /// Writes an event with its numbers.
    void put_event(const event& e, lane on, std::uint64_t type, std::uint64_t time_ns) {
        message m = event_on(on, type);
        m.text(track_event::name, name_of(e.kind))
            .inner(track_event::annotations, annotation("at", e.at))
            .inner(track_event::annotations, annotation("bytes", e.bytes))
            .inner(track_event::annotations, annotation("detail", e.detail))
            .inner(track_event::annotations, annotation("thread", e.thread));
        put_at(time_ns, m);
    }
    /// Writes a slice that ends at the event and lasted for the microseconds in its field `thread`.
    void put_slice(const event& e) {
        const std::uint64_t length = std::min<std::uint64_t>(std::uint64_t{e.thread} * 1000, e.time_ns);
        put_event(e, lane::growth, track_event::slice_begin, e.time_ns - length);
        put_at(e.time_ns, event_on(lane::growth, track_event::slice_end));
    }

    void take(const event& e) {
        switch (e.kind) {
            case event_kind::block_allocated:
            case event_kind::block_freed:
            case event_kind::block_tagged: return count(blocks_.take(e));
            case event_kind::grant:
                granted_ += e.bytes;
                return put_event(e, lane::service, track_event::instant, e.time_ns);
            case event_kind::give_back:
                granted_ -= std::min(granted_, e.bytes);
                return put_event(e, lane::service, track_event::instant, e.time_ns);
            case event_kind::park:
            case event_kind::refuse: return put_event(e, lane::service, track_event::instant, e.time_ns);
            case event_kind::commit: committed_ += e.bytes; return put_slice(e);
            case event_kind::decommit: committed_ -= std::min(committed_, e.bytes); return put_slice(e);
            case event_kind::commit_failed:
            case event_kind::move:
            case event_kind::trim: return put_slice(e);
            case event_kind::slab_opened:
            case event_kind::slab_retired:
            case event_kind::shortage: return put_event(e, lane::kernels, track_event::instant, e.time_ns);
        }
    }
    void count(const followed_blocks::change& c) {
        using effect = followed_blocks::effect;
        if (c.what == effect::allocated || c.what == effect::doubled) {
            live_bytes_ += c.after.bytes;
        }
        if (c.what == effect::freed || c.what == effect::doubled) {
            live_bytes_ -= c.before.bytes;
        }
    }
    /// Writes the counters that have changed.
    void put_counters() {
        const std::uint64_t now[] = {live_bytes_, blocks_.blocks().size(), granted_, committed_};
        for (std::uint64_t i = 0; i < std::size(now); ++i) {
            if (now[i] != written_[i] || !has_written_) {
                message m =
                    event_on(static_cast<lane>(static_cast<std::uint64_t>(lane::live_bytes) + i), track_event::counter);
                m.number(track_event::counter_value, now[i]);
                put_at(last_ns_, m);
                written_[i] = now[i];
            }
        }
        has_written_ = true;
    }

    std::uint64_t last_ns_;
    std::ostream& out_;
    followed_blocks blocks_;
    std::uint64_t live_bytes_ = 0;
    std::uint64_t granted_ = 0;
    std::uint64_t committed_ = 0;
    std::uint64_t written_[4] = {};
    bool has_written_ = false;
};

}  // namespace

std::unique_ptr<trace_converter> make_perfetto_writer(const trace_info& info,
                                                      const std::map<std::uint32_t, std::string>& /*names*/,
                                                      std::ostream& out) {
    return std::make_unique<perfetto_writer>(info, out);
}

}  // namespace orchard
