// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Allocators with one planted fault each, which only this program has: "test_null", "test_overlap", ... All are bump
// pointers otherwise.
#include <cstdlib>
#include <memory>
#include <utility>

#include "profiling/arena/adapter.hpp"

namespace orchard::arena {
namespace {

enum class fault : std::uint32_t { none, null, overlap, misaligned, lost, hang, abort, stop };

struct faulty_ref {
    fault planted = fault::none;
    simt::device_word<std::uint64_t>* top = nullptr;  ///< bytes handed out
    simt::device_word<std::uint64_t>* calls = nullptr;
    char* base = nullptr;
    std::uint64_t size = 0;

    ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        const std::uint64_t call = calls->fetch_add<order::relaxed>(1);
        if (planted == fault::hang) {
            for (;;) {
                simt::pause(1000);
            }
        }
        if (planted == fault::stop) {
            simt::stop_kernel("the planted error of a kernel");
        }
        if (planted == fault::abort) {
#if ORCHARD_CUDA_PASS
            simt::stop_kernel("");
#else
            std::abort();
#endif
        }
        if (planted == fault::lost || (planted == fault::null && call % 7 == 0)) {
            return planted == fault::lost ? base : nullptr;
        }
        const std::uint64_t each = (bytes + 31) / 32 * 32;
        const std::uint64_t at = top->fetch_add<order::relaxed>(each);
        if (bytes == 0 || at + each > size) {
            return nullptr;
        }
        return base + (planted == fault::overlap ? at / 2 : at) + (planted == fault::misaligned ? 8 : 0);
    }
    ORCHARD_FN void free(void*) const {}
};

class faulty_owner {
public:
    static absl::StatusOr<faulty_owner> create(const simt::executor& on, std::uint64_t bytes, fault planted) {
        auto words = device_array<simt::device_word<std::uint64_t>>::create(on, 2);
        auto memory = allocate_device_memory(on, bytes + 8);
        if (!words.ok() || !memory.ok()) {
            return words.ok() ? memory.status() : words.status();
        }
        faulty_owner f;
        f.words_ = *std::move(words);
        f.memory_ = {static_cast<char*>(*memory), [on](char* p) { free_device_memory(on, p); }};
        f.view_ = {planted, f.words_.data(), f.words_.data() + 1, f.memory_.get(), bytes};
        return f;
    }
    [[nodiscard]] faulty_ref ref() const { return view_; }
    absl::Status initialise() { return words_.zero(); }

private:
    device_array<simt::device_word<std::uint64_t>> words_;
    std::shared_ptr<char> memory_;
    faulty_ref view_;
};

allocator planted(const char* name, fault f, bool frees = false) {
    return adapt<faulty_owner>(
        {.name = name, .source = "a test", .frees = frees},
        [f](const simt::executor& on, std::uint64_t bytes) { return faulty_owner::create(on, bytes, f); });
}

const registrar sound{planted("test_sound", fault::none)};
const registrar null{planted("test_null", fault::null)};
const registrar overlap{planted("test_overlap", fault::overlap)};
const registrar misaligned{planted("test_misaligned", fault::misaligned)};
const registrar lost{planted("test_lost", fault::lost)};
const registrar hang{planted("test_hang", fault::hang)};
const registrar aborting{planted("test_abort", fault::abort)};
const registrar stopping{planted("test_stop", fault::stop)};
// It claims that free gives memory back.
const registrar leaking{planted("test_leak", fault::none, true)};
const registrar lost_frees{planted("test_lost_frees", fault::lost, true)};
const registrar small{adapt<faulty_owner>(
    {.name = "test_small", .source = "a test", .frees = false, .largest = 64},
    [](const simt::executor& on, std::uint64_t bytes) { return faulty_owner::create(on, bytes, fault::none); })};
const registrar refused{adapt<faulty_owner>({.name = "test_refused", .source = "a test"},
                                            [](const simt::executor&, std::uint64_t) -> absl::StatusOr<faulty_owner> {
                                                return absl::ResourceExhaustedError("the planted refusal");
                                            })};

}  // namespace
}  // namespace orchard::arena
