// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Random programs of all requests, compared with a model after every launch. A program that fails is made smaller, and
// printed with the setting that repeats it: RC_PARAMS="reproduce=..." (docs/reliability.md).

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <ostream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/machine/machine_info.hpp"
#include "tests/properties/model.hpp"

namespace orchard::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int few = 8;
constexpr int many = 40;
#else
constexpr int few = 40;
constexpr int many = 120;
#endif
constexpr int max_steps = 12;

struct heap_kind {
    const char* name;
    device_option device;
    std::uint64_t segments;
    int cached_segments;
    int mailbox_slots;

    friend std::ostream& operator<<(std::ostream& out, const heap_kind& k) { return out << k.name; }
};

const int all_slots = options{}.mailbox_slots;
constexpr heap_kind kinds[] = {
    {"emulated_8_segments", device_option::emulated, 8, 64, all_slots},
    {"emulated_8_segments_no_cache", device_option::emulated, 8, 0, 4},
    {"emulated_32_segments", device_option::emulated, 32, 64, 4},
    {"emulated_32_segments_no_cache", device_option::emulated, 32, 0, all_slots},
    {"cuda_8_segments", device_option::cuda, 8, 64, all_slots},
    {"cuda_8_segments_no_cache", device_option::cuda, 8, 0, 4},
    {"cuda_32_segments", device_option::cuda, 32, 64, 4},
    {"cuda_32_segments_no_cache", device_option::cuda, 32, 0, all_slots},
};

/// The totals of the requests of a property's programs.
struct totals {
    std::uint64_t certain = 0;
    std::uint64_t nulls = 0;
    std::uint64_t blocks = 0;
};

/// One heap, and one program that it runs.
class property_run {
public:
    property_run(const heap_kind& kind, totals& sums) : sums_{sums}, heap_{made(kind)}, model_{heap_} {}

    void run(const program& p) {
        for (std::size_t i = 0; i < p.steps.size(); ++i) {
            const std::string wrong = run(p.steps[i]);
            if (!wrong.empty()) {
                RC_FAIL(absl::StrCat("launch ", i, ": ", wrong));
            }
        }
        if (const std::string wrong = finish(); !wrong.empty()) {
            RC_FAIL(wrong);
        }
        sums_.certain += model_.certain();
        sums_.nulls += model_.nulls();
    }

private:
    static heap made(const heap_kind& kind) {
        options o;
        o.device = kind.device;
        o.capacity = kind.segments * segment_bytes;
        o.range = o.capacity;  // so that the usable memory equals the address range, of which the model knows the size
        o.cached_segments = kind.cached_segments;
        o.mailbox_slots = kind.mailbox_slots;
        o.emulated_workers = 2;
        absl::StatusOr<heap> h = heap::create(o);
        if (!h.ok()) {
            RC_FAIL(h.status().ToString());
        }
        return *std::move(h);
    }

    std::string run(const step& s) {
        const std::vector<request> requests = model_.plan(s);
        const absl::StatusOr<std::vector<answer>> answers = perform(heap_, requests);
        if (!answers.ok()) {
            return answers.status().ToString();
        }
        std::string wrong = model_.judge(s, requests, *answers);
        sums_.blocks += model_.live().size();
        return wrong.empty() ? check() : wrong;
    }
    /// Checks the heap while no kernel runs.
    std::string check() {
        const absl::StatusOr<std::uint64_t> changed = count_changed(heap_, model_.live());
        if (!changed.ok()) {
            return changed.status().ToString();
        }
        if (*changed != 0) {
            return absl::StrCat(*changed, " blocks are not as their owners left them");
        }
        if (const absl::Status s = heap_.validate(); !s.ok()) {
            return s.ToString();
        }
        const absl::StatusOr<statistics> counted = heap_.stats();
        return counted.ok() ? model_.compare(*counted) : counted.status().ToString();
    }
    /// Frees all blocks, and checks that all memory returns.
    std::string finish() {
        while (!model_.live().empty()) {
            step s;
            for (std::uint32_t warp = 0; warp < launch_warps; ++warp) {
                s.bursts.push_back({warp, ~0u, action::free, 0, spread::alike, 16, warp});
            }
            if (const std::string wrong = run(s); !wrong.empty()) {
                return absl::StrCat("freeing all: ", wrong);
            }
        }
        if (const absl::Status s = heap_.trim(); !s.ok()) {
            return s.ToString();
        }
        if (const std::string wrong = check(); !wrong.empty()) {
            return absl::StrCat("after trimming: ", wrong);
        }
        const absl::StatusOr<statistics> s = heap_.stats();
        if (!s.ok() || s->segments_granted + s->segments_in_cache + s->slabs_in_use != 0) {
            return s.ok() ? absl::StrCat("after trimming ", s->segments_granted, " segments are granted, ",
                                         s->segments_in_cache, " in the segment cache, ", s->slabs_in_use, " slabs")
                          : s.status().ToString();
        }
        return "";
    }

    totals& sums_;
    heap heap_;
    heap_model model_;
};

class random_requests : public ::testing::TestWithParam<heap_kind> {
protected:
    void SetUp() override {
        if (const auto choice = choose_device(GetParam().device); !choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
    }
    /// @param cases, seed  select the same programs in every run, unless RC_PARAMS is set
    void check(int cases, std::uint64_t seed) {
        const heap_kind& kind = GetParam();
        rc::detail::TestParams how = rc::detail::configuration().testParams;
        if (std::getenv("RC_PARAMS") == nullptr) {
            how.seed = seed;
            how.maxSuccess = cases;
        }
        totals sums;
        const auto property = [&] {
            const program p = *programs(kind.segments * segment_bytes, max_steps);
            property_run(kind, sums).run(p);
        };
        // By this name RC_PARAMS="reproduce=..." finds it.
        const rc::detail::TestMetadata name{absl::StrCat("random_requests/", kind.name), ""};
        const rc::detail::TestResult result = rc::detail::checkTestable(property, name, how);
        if (!result.is<rc::detail::SuccessResult>()) {
            std::ostringstream text;
            rc::detail::printResultMessage(result, text);
            FAIL() << text.str();
        }
        if (how.maxSuccess >= few) {
            // Programs without any certain result would pass too.
            const auto programs = static_cast<std::uint64_t>(how.maxSuccess);
            EXPECT_GE(sums.blocks, 20 * programs) << "hardly anything was held";
            // In a heap of few segments few results are certain.
            EXPECT_GE(sums.certain, 2 * programs) << "hardly anything had to be served";
            EXPECT_GE(sums.nulls, programs) << "the heap was hardly ever full";
        }
    }
};

TEST_P(random_requests, do_what_the_model_says) { check(few, 20'261'121); }

TEST_P(random_requests, of_many_programs_slow) { check(many, 1); }

INSTANTIATE_TEST_SUITE_P(all, random_requests, ::testing::ValuesIn(kinds),
                         [](const auto& at) { return std::string(at.param.name); });

}  // namespace
}  // namespace orchard::test
