// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/top/exporter.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace orchard::top {
namespace {

/// A client that sends nothing for so long is left.
constexpr int patience_ms = 2000;

absl::Status failed(const char* what, std::uint16_t port) {
    return absl::UnavailableError(absl::StrFormat("--listen %d: %s: %s", port, what, std::strerror(errno)));
}

/// Reads until the end of the request's head, whatever it asks for. Returns false if it does not come.
bool read_request(int client) {
    std::string head;
    std::array<char, 1024> some{};
    while (head.find("\r\n\r\n") == std::string::npos && head.size() < 16384) {
        pollfd ready{client, POLLIN, 0};
        const ssize_t got = ::poll(&ready, 1, patience_ms) == 1 ? ::recv(client, some.data(), some.size(), 0) : 0;
        if (got <= 0) {
            return false;
        }
        head.append(some.data(), static_cast<std::size_t>(got));
    }
    return true;
}

void answer(int client, const std::string& body) {
    const std::string all = absl::StrCat(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: ", body.size(),
        "\r\nConnection: close\r\n\r\n", body);
    for (std::size_t done = 0; done < all.size();) {
        const ssize_t some = ::send(client, all.data() + done, all.size() - done, MSG_NOSIGNAL);
        if (some <= 0) {
            return;  // the client has gone
        }
        done += static_cast<std::size_t>(some);
    }
}

}  // namespace

absl::Status serve(std::uint16_t port, const std::function<std::string()>& metrics, std::uint64_t requests) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) {
        return failed("socket", port);
    }
    const absl::Cleanup close_listener = [listener] { ::close(listener); };
    const int on = 1;
    (void)::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener, any, length) != 0 || ::listen(listener, 8) != 0 ||
        ::getsockname(listener, any, &length) != 0) {
        return failed("it cannot be listened on", port);
    }
    (void)std::fprintf(stderr, "orchard: http://127.0.0.1:%d/metrics\n", ntohs(address.sin_port));
    for (std::uint64_t served = 0; requests == 0 || served < requests; ++served) {
        const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) {
            continue;
        }
        const absl::Cleanup close_client = [client] { ::close(client); };
        if (read_request(client)) {
            answer(client, metrics());
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard::top
