// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A heap on the emulated device. An input is a program of calls by lanes of up to four warps and by the host; every
// input is a valid one. A list of the live blocks is the oracle: blocks do not overlap, are aligned and keep their
// contents; a null needs a reason; at the end everything is freed and comes back. The heap's threads and the workers of
// the device run beside each other, so that a rare order of theirs may not be repeated by the same input.

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/heap/launch_status.hpp"
#include "tests/fuzz/heap_input.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/properties/perform.hpp"
#include "tests/support/heap_kernels.cuh"

namespace orchard::fuzz {
namespace {

using test::action;
using test::answer;
using test::launch_threads;
using test::request;
using block = test::held_block;
using array = lane_array<std::uint32_t>;

/// The arrays that the lanes of a launch ask for, and what they get.
struct array_request {
    std::uint64_t count = 0;
    std::uint32_t stamp = 0;
    bool of_lane = false;
};

ORCHARD_FN std::uint32_t element(std::uint32_t stamp, std::uint64_t i) {
    return stamp * 2654435761u + static_cast<std::uint32_t>(i);
}

struct make_arrays {
    heap_ref heap;
    const array_request* requests;
    layout how;
    array* got;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const array_request& r = requests[at.global_thread()];
        if (r.of_lane) {
            const array a = heap.allocate_array<std::uint32_t>(r.count, how);
            for (std::uint64_t i = 0; i < a.size(); ++i) {
                a[i] = element(r.stamp, i);
            }
            got[at.global_thread()] = a;
        }
    }
};

struct free_arrays {
    heap_ref heap;
    const array* arrays;

    ORCHARD_FN void operator()(simt::thread_position at) const { heap.free_array(arrays[at.global_thread()]); }
};

void expect_ok(const absl::Status& s, std::string_view when) {
    expect(s.ok(), absl::StrCat(absl::string_view(when.data(), when.size()), ": ", s.ToString()));
}

template <class T>
T value_of(absl::StatusOr<T> made, std::string_view when) {
    expect_ok(made.status(), when);
    return *std::move(made);
}

std::string text_of(const block& b) {
    return absl::StrCat("block ", absl::Hex(b.address), ", ", b.bytes, " of ", b.usable, " B");
}

/// One heap and the program that it runs.
class heap_run {
public:
    explicit heap_run(program_input input)
        : input_{input}, options_{input_.options()}, heap_{value_of(heap::create(options_), "create")} {
        const device::heap_view view = heap_.ref().view();
        base_ = reinterpret_cast<std::uint64_t>(view.base);
        segments_ = view.segments;
        validates_ = input_.flag();
    }

    void run() {
        constexpr int most_calls = 48;
        for (int i = 0; i < most_calls && !input_.at_end(); ++i) {
            call();
            if (validates_) {
                validate();
            }
        }
        finish();
    }

private:
    void call() {
        const std::uint32_t kind = input_.byte() % 16;
        if (kind < 9) {
            launch();
        } else if (kind == 9) {
            launch_arrays();
        } else if (kind == 10) {
            take_arrays_back(input_.byte());
        } else if (kind == 11) {
            allocate_on_host();
        } else if (kind == 12) {
            free_on_host();
        } else if (kind == 13) {
            expect_ok(heap_.trim(), "trim");
            host_allocated_ = false;
        } else if (kind == 14) {
            expect_ok(heap_.stats().status(), "stats");
            expect_ok(heap_.chunks().status(), "chunks");
        } else {
            validate();
        }
    }

    // ---- blocks

    /// Takes a live block out of the list.
    block take_block() {
        const std::size_t i = input_.below(live_.size());
        std::swap(live_[i], live_.back());
        const block b = live_.back();
        live_.pop_back();
        return b;
    }

    void launch() {
        std::vector<request> requests(launch_threads);
        const std::uint32_t warps = 1 + input_.below(test::launch_warps);
        std::vector<block> put_back;  // no block is meant by two lanes
        for (std::uint32_t w = 0; w < warps; ++w) {
            const burst b = input_.next_burst(segments_ << segment_shift);
            for (std::uint32_t lane = 0; lane < 32; ++lane) {
                request& r = requests[w * 32 + lane];
                if ((b.lanes >> lane & 1) == 0) {
                    continue;
                }
                if (is_hardened() && b.what == action::free_inside) {
                    continue;  // `validate` would say so, as it must
                }
                r = {b.what, b.bytes_of(lane), b.alignment, ++stamps_, {}};
                if (b.what < action::realloc) {
                    continue;
                }
                if (!live_.empty()) {
                    r.old = take_block();
                } else if (b.what != action::realloc) {
                    r = {};
                }
                if (b.what == action::free_inside && r.what == action::free_inside) {
                    ++wrong_frees_;
                    put_back.push_back(r.old);
                }
            }
        }
        live_.insert(live_.end(), put_back.begin(), put_back.end());
        const bool must = warps == 1 && must_serve(requests);
        const std::vector<answer> answers = value_of(test::perform(heap_, requests), "a launch");
        ++launches_;
        for (std::size_t i = 0; i < requests.size(); ++i) {
            judge(requests[i], answers[i], launches_ * test::launch_warps + i / 32, must);
        }
        settled_ = false;
        check_overlap();
    }

    [[nodiscard]] bool is_hardened() const { return options_.hardened != hardening::off; }
    static bool wants_memory(const request& r) {
        return r.bytes != 0 && r.what != action::nothing && r.what != action::free && r.what != action::free_inside;
    }
    static bool bad_alignment(const request& r) {
        return r.what == action::aligned_alloc && (!std::has_single_bit(r.alignment) || r.alignment > segment_bytes);
    }
    static bool is_page(const request& r) {
        return std::max(r.bytes, r.what == action::aligned_alloc ? r.alignment : 0) <= largest_page_bytes;
    }
    static std::uint64_t alignment_due(const request& r) {
        if (r.what == action::aligned_alloc) {
            return std::max<std::uint64_t>(r.alignment, 16);
        }
        return !is_page(r) ? 256 : std::has_single_bit(r.bytes) ? std::max<std::uint64_t>(r.bytes, 16) : 16;
    }

    /// Returns true if the heap has room for all requests of one warp, whatever its state: enough segments hold no
    /// block, and nothing is under way. False in cases that are hard to tell.
    [[nodiscard]] bool must_serve(const std::vector<request>& requests) const {
        const auto by_host = [](const block& b) { return b.origin == of_host; };
        if (is_hardened() || !settled_ || host_allocated_ || !arrays_.empty() ||
            std::any_of(live_.begin(), live_.end(), by_host)) {
            return false;
        }
        std::uint64_t lanes = 0;
        std::uint64_t needed = 0;
        std::map<std::uint32_t, std::uint64_t> pages;
        for (const request& r : requests) {
            if (by_host(r.old)) {
                return false;
            }
            if (!wants_memory(r) || bad_alignment(r)) {
                continue;
            }
            ++lanes;
            if (r.bytes > segments_ << segment_shift || r.what == action::aligned_alloc) {
                return false;
            }
            if (is_page(r)) {
                ++pages[class_of(static_cast<std::uint32_t>(r.bytes))];
            } else {
                needed += (r.bytes + segment_bytes - 1) >> segment_shift;
            }
        }
        if (needed != 0) {
            return lanes == 1 && live_.empty() && needed <= segments_;
        }
        for (const auto& [page_class, count] : pages) {
            needed += (count + class_pages(page_class) - 1) / class_pages(page_class);
        }
        // A block that this launch frees still counts as live: the order of the lanes is not known.
        std::uint64_t used = 0;
        std::map<std::uint64_t, std::uint64_t> held = held_;
        std::vector<bool> seen(segments_);
        const auto count = [&](const block& b) {
            if (b.page == 0) {
                used += std::exchange(held[b.origin], 0);
            } else {
                used += seen[(b.address - base_) >> segment_shift] ? 0 : 1;
                seen[(b.address - base_) >> segment_shift] = true;
            }
        };
        std::for_each(live_.begin(), live_.end(), count);
        for (const request& r : requests) {
            if (r.old.address != 0) {
                count(r.old);
            }
        }
        return used + needed <= segments_;
    }

    void judge(const request& r, const answer& a, std::uint64_t origin, bool must) {
        expect(a.complaints == 0, absl::StrCat("complaints ", a.complaints, " (tests/properties/perform.hpp) of ",
                                               text_of(r.old.address != 0 ? r.old : block{a.address, r.bytes})));
        if (!wants_memory(r)) {
            expect(a.address == 0, "an address where there is none to return");
            return;
        }
        if (!is_page(r)) {
            // The lanes of a warp may share a chunk, which is given back as a whole: room for all of them, and for what
            // a chunk's shape adds.
            held_[origin] += (std::min(r.bytes, segments_ << segment_shift) >> segment_shift) + 2;
        }
        if (a.address == 0) {
            judge_null(r, must);
            return;
        }
        const bool in_place = r.what == action::realloc && a.address == r.old.address;
        expect(!bad_alignment(r), absl::StrCat("memory, although ", r.alignment, " is no alignment"));
        expect(in_place || a.address % alignment_due(r) == 0,
               absl::StrCat(absl::Hex(a.address), " is not aligned for ", r.bytes, " B"));
        expect(a.usable >= r.bytes, absl::StrCat(a.usable, " usable bytes for ", r.bytes));
        const bool page = in_place ? r.old.page != 0 : is_page(r);
        live_.push_back({a.address, r.bytes, a.usable, r.stamp, page ? 1u : 0u, in_place ? r.old.origin : origin});
    }

    void judge_null(const request& r, bool must) {
        if (r.what == action::realloc && r.old.address != 0) {
            live_.push_back(r.old);  // is kept
            expect(r.bytes > r.old.usable, "a realloc that needs no more memory failed");
        }
        expect(!must || bad_alignment(r), absl::StrCat("null for ", r.bytes, " B, although there is room"));
    }

    void check_overlap() const {
        std::vector<block> sorted = live_;
        std::sort(sorted.begin(), sorted.end(), [](const block& a, const block& b) { return a.address < b.address; });
        std::uint64_t end = base_;
        for (const block& b : sorted) {
            expect(b.address >= end, absl::StrCat(text_of(b), " overlaps what lies before it"));
            end = b.address + b.usable;
        }
        expect(end <= base_ + (segments_ << segment_shift), "a block reaches beyond the heap");
    }

    void check_contents() {
        expect(value_of(test::count_changed(heap_, live_), "a launch") == 0, "a block changed while it was held");
        for (const held_array& a : arrays_) {
            for (std::uint64_t i = 0; i < a.it.size(); ++i) {
                expect(a.it[i] == element(a.stamp, i), "an array changed while it was held");
            }
        }
    }

    // ---- arrays

    void launch_arrays() {
        const burst b = input_.next_burst(1 << 20);
        const layout how = input_.next_layout();
        std::vector<array_request> requests(launch_threads);
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
            if ((b.lanes >> lane & 1) != 0) {
                constexpr std::uint64_t most = 1 << 16;
                requests[lane] = {std::min(b.bytes_of(lane) / sizeof(std::uint32_t), most),
                                  static_cast<std::uint32_t>(++stamps_), true};
            }
        }
        const auto wanted = uploaded(requests);
        const auto got = uploaded(std::vector<array>(launch_threads));
        launch_kernel(make_arrays{heap_.ref(), wanted.data(), how, got.data()});
        std::vector<array> all(launch_threads);
        expect_ok(got.download(all), "a copy");
        for (std::uint32_t i = 0; i < launch_threads; ++i) {
            if (!all[i].empty()) {
                expect(all[i].size() == requests[i].count, "an array of another size");
                arrays_.push_back({all[i], requests[i].stamp});
            }
        }
    }

    /// Frees `count` arrays.
    void take_arrays_back(std::size_t count) {
        std::vector<array> some(launch_threads);
        for (std::size_t i = 0; i < std::min<std::size_t>(count, launch_threads) && !arrays_.empty(); ++i) {
            std::swap(arrays_[input_.below(arrays_.size())], arrays_.back());
            some[i] = arrays_.back().it;
            arrays_.pop_back();
        }
        const auto them = uploaded(some);
        launch_kernel(free_arrays{heap_.ref(), them.data()});
    }

    template <class Kernel>
    void launch_kernel(const Kernel& kernel) {
        expect_ok(to_status(simt::launch(heap_.executor(), {launch_threads / 64, 64}, kernel)), "a launch");
        settled_ = false;
    }
    template <class T>
    device_array<T> uploaded(const std::vector<T>& from) {
        auto made = value_of(device_array<T>::create(heap_.executor(), from.size()), "an array of the test's own");
        expect_ok(made.upload(from), "a copy");
        return made;
    }

    // ---- calls of the host

    void allocate_on_host() {
        const std::uint64_t bytes = input_.next_bytes(segments_ << segment_shift);
        const absl::StatusOr<void*> p = heap_.allocate_on_host(bytes);
        settled_ = false;
        host_allocated_ = true;
        if (is_hardened()) {
            expect(absl::IsFailedPrecondition(p.status()) || bytes == 0, "a block for the host in a hardened heap");
            return;
        }
        if (!p.ok()) {
            expect_clear(p.status());
            expect(absl::IsResourceExhausted(p.status()) || absl::IsInvalidArgument(p.status()),
                   absl::StrCat("an error of its own: ", p.status().ToString()));
            return;
        }
        expect((*p == nullptr) == (bytes == 0), "null without an error, or memory for nothing");
        if (*p == nullptr) {
            return;
        }
        const block b{test::as_number(*p), bytes, heap_.ref().usable_size(*p), ++stamps_, 0, of_host};
        expect(b.address % 256 == 0, "a block for the host that is not aligned");
        expect(b.usable >= bytes, absl::StrCat(b.usable, " usable bytes for ", bytes));
        // On the emulated device the host reaches the memory as it is.
        test::stamp_block(*p, b.usable, b.stamp);
        live_.push_back(b);
        check_overlap();
    }

    void free_on_host() {
        for (std::size_t left = 1 + input_.below(40); left != 0 && !live_.empty(); --left) {
            const block b = take_block();
            auto* p = reinterpret_cast<void*>(b.address);
            expect(test::has_stamp(p, b.usable, b.stamp), text_of(b) + " changed while it was held");
            expect_ok(heap_.free_on_host(p), "free_on_host");
        }
        settled_ = false;
    }

    void validate() {
        std::vector<orchard::held_block> held;
        for (const block& b : live_) {
            held.push_back({reinterpret_cast<const void*>(b.address), b.bytes});
        }
        expect_ok(heap_.validate(held), "validate");
        settled_ = true;
    }

    void finish() {
        check_contents();
        validate();
        while (!arrays_.empty()) {
            take_arrays_back(launch_threads);
        }
        while (!live_.empty()) {
            std::vector<request> requests(launch_threads);
            for (request& r : requests) {
                if (!live_.empty()) {
                    r.what = action::free;
                    r.old = live_.back();
                    live_.pop_back();
                }
            }
            for (const answer& a : value_of(test::perform(heap_, requests), "a launch")) {
                expect(a.complaints == 0, "a block changed before it was freed at the end");
            }
        }
        expect_ok(heap_.trim(), "trim");
        validate();
        const statistics s = value_of(heap_.stats(), "stats");
        expect(s.pages_in_use + s.live_chunks + s.slabs_in_use + s.segments_in_cache + s.portions_in_cache +
                       s.portions_granted + s.segments_granted ==
                   0,
               "memory is in use after all was freed:\n" + to_text(s));
        expect(s.allocations == s.frees, absl::StrCat(s.allocations, " allocations and ", s.frees, " frees"));
        expect(s.invalid_frees == wrong_frees_, absl::StrCat(s.invalid_frees, " wrong frees, not ", wrong_frees_));
    }

    static constexpr std::uint64_t of_host = ~std::uint64_t{0};  // an origin
    struct held_array {
        array it;
        std::uint32_t stamp;
    };

    program_input input_;
    options options_;
    heap heap_;
    std::uint64_t base_ = 0;
    std::uint64_t segments_ = 0;
    bool validates_ = false;       // after each call
    bool settled_ = true;          // nothing ran since `validate`
    bool host_allocated_ = false;  // the host may hold a chunk of which it has handed out a part
    std::vector<block> live_;
    std::vector<held_array> arrays_;
    std::map<std::uint64_t, std::uint64_t> held_;  // at most so many segments are held by the chunks of an origin
    std::uint64_t launches_ = 0;
    std::uint64_t stamps_ = 0;
    std::uint64_t wrong_frees_ = 0;
};

}  // namespace
}  // namespace orchard::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    orchard::fuzz::heap_run(orchard::fuzz::program_input(data, size)).run();
    return 0;
}
