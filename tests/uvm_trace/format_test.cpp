// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The recorded format: data is read back as it was written, in few bytes, and invalid bytes do no harm.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "runtime/cli/output_file.hpp"
#include "tests/uvm_trace/traces.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::test {
namespace {

using uvm_model::access;
using uvm_model::access_kind;
using uvm_model::trace;
using uvm_model::trace_writer;

constexpr std::uint64_t space = 1ull << 40;

/// Steps of any lanes, kinds and addresses; the same for a seed.
std::vector<steps_of_warp> random_steps(std::uint32_t seed, std::uint32_t warps, std::uint32_t max_steps) {
    std::mt19937_64 random(seed);
    std::vector<steps_of_warp> all(warps);
    for (steps_of_warp& of_warp : all) {
        of_warp.resize(random() % (max_steps + 1));
        for (auto& step : of_warp) {
            const auto lanes = random() % 3 == 0 ? ~std::uint32_t{0} : static_cast<std::uint32_t>(random()) | 1u << 17;
            const std::uint64_t base = random() % (space / 2);
            const std::uint64_t stride = random() % 3 == 0 ? 0 : random() % 4096;
            const bool wild = random() % 4 == 0;
            const bool one_kind = random() % 2 == 0;
            for (std::uint8_t l = 0; l < 32; ++l) {
                if ((lanes >> l & 1) != 0) {
                    step.push_back({wild ? random() % space : base + l * stride, l,
                                    static_cast<access_kind>(one_kind ? 1 : random() % 3)});
                }
            }
        }
    }
    return all;
}

trace encode(const std::vector<steps_of_warp>& steps, std::uint64_t bytes = space) {
    given_source source(bytes, steps);
    absl::StatusOr<trace> made = trace::from(source);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
}

absl::Status save(const trace& t, const std::string& path) {
    return command_line::write_file(path, t.encoded(), command_line::readable_by::owner);
}

/// Returns `bytes` with the checksum of its other bytes.
std::string sealed(std::string bytes) {
    const std::size_t before = uvm_model::trace_header_bytes - 8;
    const std::string_view all = bytes;
    std::string sum;
    uvm_model::put_u64(sum, uvm_model::checksum(all.substr(0, before),
                                                uvm_model::checksum(all.substr(uvm_model::trace_header_bytes))));
    return bytes.replace(before, 8, sum);
}

/// Returns the file of `header` and `body`, with the header's length fields set for the body.
std::string file_of(uvm_model::trace_header header, const std::string& body) {
    header.body_bytes = body.size();
    return sealed(uvm_model::to_bytes(header) + std::string(8, '\0') + body);
}

std::string block(std::uint64_t warp, std::uint64_t steps, const std::string& of_steps) {
    std::string out;
    uvm_model::put_number(out, warp);
    uvm_model::put_number(out, steps);
    uvm_model::put_number(out, of_steps.size());
    return out + of_steps;
}

void expect_error(std::string bytes, const std::string& text) {
    const absl::StatusOr<trace> read = trace::parse(std::move(bytes));
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(std::string(read.status().message()), ::testing::HasSubstr(text));
}

TEST(TraceFormat, WhatIsWrittenIsReadBack) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        const auto steps = random_steps(seed, 1 + seed % 7, 200);
        const trace t = encode(steps);
        EXPECT_EQ(t.header().warps, steps.size());
        EXPECT_EQ(t.header().space_bytes, space);
        EXPECT_EQ(all_of(*t.source()), steps) << "seed " << seed;
    }
}

TEST(TraceFormat, StepsOfWarpsComeInAnyOrder) {
    const auto steps = random_steps(7, 5, 300);
    std::stringstream out(std::ios::in | std::ios::out | std::ios::binary);
    out << "what was there before";
    auto writer = trace_writer::create(out, space, 5);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (std::size_t i = 0; i < 300; ++i) {
        for (std::uint32_t w = 0; w < 5; ++w) {
            if (i < steps[w].size()) {
                ASSERT_TRUE(writer->add(w, steps[w][i]).ok());
            }
        }
    }
    ASSERT_TRUE(writer->finish().ok());
    const std::string all = out.str();
    ASSERT_TRUE(all.starts_with("what was there before"));
    const auto read = trace::parse(all.substr(std::string_view("what was there before").size()));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(all_of(*read->source()), steps);
    EXPECT_EQ(all_of(*read->source()), all_of(*encode(steps).source()));
}

TEST(TraceFormat, AStepMayBeAskedForAgainAndTheWholeTraceToo) {
    const auto steps = random_steps(3, 2, 50);
    const trace t = encode(steps);
    const auto source = t.source();
    std::array<access, max_lanes> buffer;
    for (int pass = 0; pass < 2; ++pass) {
        for (std::size_t i = 0; i < steps[0].size(); ++i) {
            for (int again = 0; again < 2; ++again) {
                const std::size_t count = source->step(0, i, buffer);
                EXPECT_EQ(std::vector(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count)),
                          steps[0][i]);
            }
        }
        EXPECT_EQ(source->step(0, steps[0].size(), buffer), 0u);
        EXPECT_EQ(source->step(0, steps[0].size(), buffer), 0u);
    }
}

TEST(TraceFormat, FilesAreSavedAndLoaded) {
    const std::string path = (std::filesystem::path(::testing::TempDir()) / "orchard_trace_format_test.trace").string();
    const trace t = encode(random_steps(1, 3, 40));
    ASSERT_TRUE(save(t, path).ok());
    const auto loaded = trace::load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->encoded(), t.encoded());
    std::filesystem::remove(path);
    const auto missing = trace::load(path);
    EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(missing.status().message()), ::testing::HasSubstr(path));
}

TEST(TraceFormat, ReadsNoMoreThanATrace) {
    EXPECT_EQ(trace::load("/").status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(trace::load("/dev/zero").status().code(), absl::StatusCode::kDataLoss) << "it does not end";
    // A header that promises more than a machine has.
    const std::string path = (std::filesystem::path(::testing::TempDir()) / "orchard_trace_too_long.trace").string();
    ASSERT_TRUE(save(encode(random_steps(1, 3, 40)), path).ok());
    uvm_model::trace_header h;
    {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        std::string bytes(uvm_model::trace_header_bytes, 0);
        file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        h = uvm_model::header_from(bytes);
        h.body_bytes = std::uint64_t{1} << 60;
        file.seekp(0);
        file << uvm_model::to_bytes(h);
    }
    EXPECT_EQ(trace::load(path).status().code(), absl::StatusCode::kResourceExhausted) << trace::load(path).status();
    std::filesystem::remove(path);
}

TEST(TraceFormat, RegularPatternsTakeFewBytes) {
    // 32 lanes a step: in step in arrays of 1 MiB; the same, every other lane; the same random element of each array;
    // a random element for each lane.
    std::mt19937_64 random(5);
    std::array<steps_of_warp, 4> patterns;
    for (std::uint64_t i = 0; i < 1000; ++i) {
        std::array<std::vector<access>, 4> step;
        const std::uint64_t shared = random() % (1 << 18) * 4;
        for (std::uint8_t l = 0; l < 32; ++l) {
            const std::uint64_t base = l * (1ull << 20);
            step[0].push_back({base + i * 4, l, access_kind::read});
            if ((l + i) % 2 == 0) {
                step[1].push_back({base + i * 4, l, access_kind::read});
            }
            step[2].push_back({base + shared, l, access_kind::write});
            step[3].push_back({base + random() % (1 << 18) * 4, l, access_kind::read});
        }
        for (std::size_t p = 0; p < patterns.size(); ++p) {
            patterns[p].push_back(step[p]);
        }
    }
    const std::array<double, 4> most{0.2, 0.6, 0.3, 3.7};
    for (std::size_t p = 0; p < patterns.size(); ++p) {
        const trace t = encode({patterns[p]}, 32ull << 20);
        const double each = static_cast<double>(t.encoded().size()) / static_cast<double>(t.header().accesses);
        EXPECT_LT(each, most[p]) << "pattern " << p;
        RecordProperty("bytes_per_access_" + std::to_string(p), std::to_string(each));
    }
}

TEST(TraceFormat, WhatIsNoStepIsRefused) {
    std::stringstream out(std::ios::in | std::ios::out | std::ios::binary);
    EXPECT_FALSE(trace_writer::create(out, space, 0).ok());
    EXPECT_FALSE(trace_writer::create(out, space, uvm_model::max_trace_warps + 1).ok());
    auto writer = trace_writer::create(out, 4096, 2);
    ASSERT_TRUE(writer.ok());
    const auto refused = [&](std::uint32_t warp, const std::vector<access>& step, const std::string& text) {
        const absl::Status s = writer->add(warp, step);
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << text;
        EXPECT_THAT(std::string(s.message()), ::testing::HasSubstr(text));
    };
    refused(2, {{0, 0, access_kind::read}}, "warp 2");
    refused(0, {}, "0 accesses");
    refused(0, {{0, 32, access_kind::read}}, "lane 32");
    refused(0, {{0, 3, access_kind::read}, {0, 3, access_kind::read}}, "lane 3 at place 1");
    refused(0, {{4096, 0, access_kind::read}}, "address 4096");
    refused(0, {{0, 0, static_cast<access_kind>(3)}}, "but 3");
    EXPECT_TRUE(writer->add(1, std::vector<access>{{4095, 31, access_kind::atomic}}).ok());
    ASSERT_TRUE(writer->finish().ok());
    const auto read = trace::parse(out.str().substr(0));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->header().accesses, 1u);
}

TEST(TraceFormat, AStreamThatFailsIsAnError) {
    std::ofstream nowhere("/no/such/folder/x.trace", std::ios::binary);
    EXPECT_EQ(trace_writer::create(nowhere, space, 1).status().code(), absl::StatusCode::kUnavailable);
}

TEST(TraceFormat, EachFaultHasItsError) {
    const std::string good = encode(random_steps(2, 3, 20)).encoded();
    expect_error("", "does not begin with");
    expect_error("ORCHTRCX" + good.substr(8), "does not begin with");
    expect_error(good.substr(0, 20), "20 bytes");
    expect_error(good.substr(0, good.size() - 1), "its header says");
    expect_error(good + "x", "its header says");
    std::string other_version = good;
    other_version[8] = 2;
    expect_error(other_version, "version 2");
    std::string flipped = good;
    flipped.back() = static_cast<char>(flipped.back() ^ 1);
    expect_error(flipped, "checksum");

    std::stringstream out(std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(trace_writer::create(out, space, 1).ok());
    expect_error(out.str(), "did not finish");
}

TEST(TraceFormat, EachFaultOfABodyHasItsError) {
    const uvm_model::trace_header one{.warps = 1, .space_bytes = 100, .steps = 1, .accesses = 1};
    const auto lane0_at = [](char zigzag) { return std::string{8, 1, zigzag}; };  // reads; one difference
    EXPECT_TRUE(trace::parse(file_of(one, block(0, 1, lane0_at(100)))).ok());     // address 50
    expect_error(file_of({.warps = 0, .space_bytes = 1}, ""), "0 warps");
    expect_error(file_of({.warps = uvm_model::max_trace_warps + 1, .space_bytes = 1}, ""), "4194305 warps");
    expect_error(file_of(one, block(1, 1, lane0_at(0))), "steps of warp 1");
    expect_error(file_of(one, block(0, 2, lane0_at(0))), "a block of 1 steps, not 2");
    expect_error(file_of(one, block(0, 1, lane0_at(0)) + block(0, 1, lane0_at(0))), "2 accesses in 2 steps");
    expect_error(file_of(one, block(0, 1, {8, 1, '\xc8', 1})), "address beyond the space");  // 100
    expect_error(file_of(one, block(0, 1, lane0_at(1))), "address beyond the space");        // -1
    expect_error(file_of(one, block(0, 1, {9, 0})), "the lanes of the one before");
    expect_error(file_of(one, block(0, 1, {8, 0, 0})), "without accesses");
    expect_error(file_of(one, block(0, 1, {8, '\x80', '\x80', '\x80', '\x80', 16, 0})), "lane beyond 31");
    expect_error(file_of(one, block(0, 1, {16, 1, 0})), "bits that mean nothing");
    expect_error(file_of(one, block(0, 1, {14, 1, 3, 0})), "neither read, write nor atomic");
    expect_error(file_of(one, block(0, 1, {14, 1, 4, 0})), "kinds of more accesses");
    expect_error(file_of(one, block(0, 1, {8, 1})), "in the middle of a step");
    expect_error(file_of(one, block(0, 1, std::string{8, 1} + std::string(10, '\xff'))), "more than 64 bits");
    expect_error(file_of(one, std::string{0, 1, 9, 8, 1, 0}), "longer than what is left");
}

/// Reads all of a trace, whose contract must hold.
void use(const trace& t) {
    std::uint64_t accesses = 0;
    for (const steps_of_warp& steps : all_of(*t.source())) {
        for (const auto& step : steps) {
            accesses += step.size();
            EXPECT_TRUE(std::all_of(step.begin(), step.end(), [&](const access& a) {
                return a.address < t.header().space_bytes && a.lane < 32 && a.kind <= access_kind::atomic;
            }));
        }
    }
    EXPECT_EQ(accesses, t.header().accesses);
}

TEST(TraceFormat, NoByteThatChangesGoesUnnoticed) {
    const std::string good = encode(random_steps(4, 3, 6)).encoded();
    for (std::size_t i = 0; i < good.size(); ++i) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string bad = good;
            bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
            EXPECT_FALSE(trace::parse(bad).ok()) << "byte " << i << ", bit " << bit;
        }
        EXPECT_FALSE(trace::parse(good.substr(0, i)).ok()) << "cut off at " << i;
    }
}

TEST(TraceFormat, NoBytesDoHarmUnderAChecksumThatIsRight) {
    const std::string good = encode(random_steps(4, 3, 6)).encoded();
    std::uint64_t valid = 0;
    const auto read = [&](std::string bytes) {
        const auto t = trace::parse(sealed(std::move(bytes)));
        if (t.ok()) {
            ++valid;
            use(*t);
        }
    };
    std::mt19937_64 random(6);
    for (std::size_t i = 0; i < good.size(); ++i) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string bad = good;
            bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
            read(std::move(bad));
        }
        std::string two = good;
        two[i] = static_cast<char>(random());
        two[random() % two.size()] = static_cast<char>(random());
        read(std::move(two));
    }
    EXPECT_GT(valid, 0u);  // an address that is another is no fault
}

}  // namespace
}  // namespace orchard::test
