// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/row_run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/deadlock/calls.hpp"
#include "tests/deadlock/child_process.hpp"
#include "tests/deadlock/growing.hpp"
#include "tests/deadlock/row.hpp"
#include "tests/support/heap_service_peer.hpp"
#include "uvm/memory/cuda_memory.hpp"

namespace orchard::test {
namespace {

using detail::to_status;

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr std::uint64_t capacity = 12 * gib;
constexpr std::uint64_t needed = 16 * gib;  ///< the heap's capacity, plus the memory of the calls
constexpr absl::Duration request_timeout = absl::Seconds(5);
constexpr absl::Duration entering = absl::Milliseconds(3);  ///< from the call's begin to the first request
constexpr absl::Duration kernel_deadline = absl::Seconds(50);

/// The file of one row. It can be written again and again, in one piece each, so that it holds a whole row whenever the
/// process ends.
class row_file {
public:
    explicit row_file(const std::string& path) : file_{open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)} {}
    row_file(const row_file&) = delete;
    row_file& operator=(const row_file&) = delete;
    ~row_file() {
        if (file_ >= 0) {
            close(file_);
        }
    }
    /// Returns whether it was written.
    [[nodiscard]] bool write(const row& what) const {
        constexpr std::size_t width = 1024;
        std::string text = to_json(what);
        text.resize(std::max(width, text.size()), ' ');
        return pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
    }

private:
    int file_;
};

/// One row while it is measured.
class row_run {
public:
    explicit row_run(const row_order& order) : file_{order.path} {
        row_.call = order.call;
        row_.block_bytes = order.block_bytes;
        row_.loading = order.loading;
    }
    int run();

private:
    absl::Status measure();
    absl::Status prepare();
    absl::Status create_heap();
    void make_calls();
    void end_process();
    void wait_for_end();
    absl::Status check();

    row row_;
    row_file file_;
    bed bed_;
    blocking_call call_;
    std::unique_ptr<heap> heap_;
    std::unique_ptr<growing> kernel_;
    std::atomic<bool> entered_{false};
    std::atomic<bool> over_{false};
    absl::Status call_status_;
};

/// Errors: Unavailable if this machine has no GPU or not enough memory for the row.
absl::Status row_run::prepare() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        return absl::UnavailableError("needs a GPU");
    }
    std::size_t free = 0;
    std::size_t total = 0;
    absl::Status status = to_status(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (status.ok() && free < needed) {
        status = absl::UnavailableError(absl::StrCat("needs ", needed, " bytes of a GPU, which has ", free, " free"));
    }
    if (status.ok()) {
        status = bed_.set_up();
    }
    auto all = all_calls(&bed_);
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const blocking_call& c) { return c.name == row_.call; });
    if (status.ok() && found == all.end()) {
        status = absl::InvalidArgumentError(absl::StrCat("there is no call '", row_.call, "'"));
    }
    if (status.ok()) {
        call_ = *found;
        status = create_heap();
    }
    if (status.ok()) {
        status = call_.prepare();
    }
    return status;
}

absl::Status row_run::create_heap() {
    options values;
    values.device = device_option::cuda;
    values.capacity = capacity;
    values.request_timeout = request_timeout;
    auto made = heap::create(values);
    if (!made.ok()) {
        return made.status();
    }
    heap_ = std::make_unique<heap>(*std::move(made));
    bed_.grown = heap_.get();
    auto kernel = growing::make(row_.block_bytes);
    if (!kernel.ok()) {
        return kernel.status();
    }
    kernel_ = *std::move(kernel);
    return call_.reserved ? heap_->reserve(grown_bytes + gib) : absl::OkStatus();
}

/// The other thread: makes the call again and again until the kernel has ended. After the first one it waits for the
/// kernel's gate, so that what it uses up is not used up before.
void row_run::make_calls() {
    call_status_ = to_status(cudaSetDevice(0), "cudaSetDevice");
    while (call_status_.ok() && !over_ && row_.calls < static_cast<std::uint64_t>(call_.most)) {
        const std::uint64_t before = heap_service_peer::begun_segments(*heap_);
        const absl::Time began = absl::Now();
        ++row_.calls;
        entered_ = true;
        call_status_.Update(call_.make());
        row_.longest_call_us =
            std::max(row_.longest_call_us.value_or(0), absl::ToDoubleMicroseconds(absl::Now() - began));
        const std::uint64_t after = heap_service_peer::begun_segments(*heap_);
        row_.begun_mib += after > before ? (after - before) * (segment_bytes / mib_bytes) : 0;
        while (!kernel_->is_open() && !over_) {
            absl::SleepFor(absl::Microseconds(20));
        }
    }
    entered_ = true;  // even if no call was made
}

/// Ends the process by the call, while another thread keeps writing the row, as far as it is known, until the end.
void row_run::end_process() {
    row_.calls = 1;
    const std::uint64_t before = heap_service_peer::begun_segments(*heap_);
    const auto write_now = [this, before] {
        const std::uint64_t now = heap_service_peer::begun_segments(*heap_);
        row_.begun_mib = now > before ? (now - before) * (segment_bytes / mib_bytes) : 0;
        row_.verdict = verdict_of(row_);
        (void)file_.write(row_);
    };
    write_now();  // the exit may be over within the first millisecond
    std::thread([write_now] {
        for (;;) {
            absl::SleepFor(absl::Milliseconds(1));
            write_now();
        }
    }).detach();
    kernel_->open_gate();
    (void)call_.make();
}

void row_run::wait_for_end() {
    const absl::Time deadline = absl::Now() + kernel_deadline;
    while (!kernel_->is_over() && absl::Now() < deadline) {
        absl::SleepFor(absl::Microseconds(100));
    }
    over_ = true;
}

/// Waits for the kernel, and records its results.
absl::Status row_run::check() {
    const auto seen = kernel_->finish();
    if (!seen.ok()) {
        return seen.status();
    }
    row_.nulls = seen->nulls;
    row_.longest_request_us = static_cast<double>(seen->longest_ns) * 1e-3;
    if (seen->nulls != 0) {
        const auto failure = heap_->last_failure();
        row_.reason = failure.has_value() ? std::string(name_of(failure->reason)) : "not recorded";
    }
    if (seen->requests != grown_bytes / row_.block_bytes) {
        return absl::InternalError(absl::StrCat(seen->requests, " requests were made"));
    }
    if (seen->damaged != 0) {
        return absl::InternalError(absl::StrCat(seen->damaged, " blocks do not hold what was written to them"));
    }
    return absl::OkStatus();
}

absl::Status row_run::measure() {
    if (absl::Status status = prepare(); !status.ok()) {
        return status;
    }
    if (absl::Status status = kernel_->launch(*heap_, call_.apart ? bed_.other : default_stream); !status.ok()) {
        return status;
    }
    if (call_.ends_process) {
        std::thread(&row_run::end_process, this).detach();
        absl::SleepFor(row_deadline);  // without a CUDA call or a read of its memory
        return absl::DeadlineExceededError("the process did not end");
    }
    std::thread other(&row_run::make_calls, this);
    while (!entered_) {
        absl::SleepFor(absl::Microseconds(20));
    }
    absl::SleepFor(entering);
    kernel_->open_gate();
    wait_for_end();
    other.join();
    absl::Status status = call_status_;
    status.Update(check());
    return status;
}

int row_run::run() {
    const absl::Status status = measure();
    if (!status.ok()) {
        row_.error = std::string(status.message());
    }
    row_.verdict = absl::IsUnavailable(status) ? verdicts::not_available : verdict_of(row_);
    if (row_.verdict == verdicts::not_tested && call_.reserved) {
        row_.verdict = verdicts::through;  // nothing had to be committed
    }
    if (!file_.write(row_)) {
        std::fprintf(stderr, "deadlock_tests: the row cannot be written\n");
        return 1;
    }
    return 0;
}

}  // namespace

std::vector<std::string> arguments_of(const row_order& order) {
    return {"--row", order.call, absl::StrCat(order.block_bytes), order.loading, order.path};
}

int run_row(const row_order& order) {
    end_with_parent(row_deadline + absl::Seconds(10));
    row_run* run = new row_run(order);  // never destroyed: threads of a call that did not return may still use it
    std::_Exit(run->run());
}

}  // namespace orchard::test
