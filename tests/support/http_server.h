// An HTTP server inside the test, that answers as the test says: also cut off, endless, slow, or wrong.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sparkx::testing {

struct ServedRequest {
  std::string method;
  std::string target;                          // path and query; of a request to a proxy the whole URL
  std::map<std::string, std::string> headers;  // by lowercase name

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

struct ServedReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  bool with_length = true;                      // else the end of the connection is the end of the body
  std::optional<std::size_t> cut_after = {};    // close the connection after so many bytes of the body
  std::optional<std::size_t> stall_after = {};  // or send nothing more, and wait
  bool endless = false;                         // repeat the body
};

class HttpServer {
 public:
  using Handler = std::function<ServedReply(const ServedRequest&)>;

  explicit HttpServer(Handler handler, std::uint16_t port = 0) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, general, size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, general, &size) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& thread : connections_) thread.join();
    ::close(listener_);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  // What came in so far.
  std::vector<ServedRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::size_t count(std::string_view method, std::string_view part_of_target) const {
    std::size_t count = 0;
    for (const ServedRequest& request : requests()) {
      count += request.method == method && request.target.find(part_of_target) != std::string::npos;
    }
    return count;
  }

 private:
  static bool wait_for(int descriptor, short events) {
    pollfd polled{descriptor, events, 0};
    return ::poll(&polled, 1, 20) > 0;
  }

  void accept_all() {
    while (!stopping_) {
      if (!wait_for(listener_, POLLIN)) continue;
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection >= 0) connections_.emplace_back([this, connection] { serve(connection); });
    }
  }

  void serve(int connection) {
    if (const std::optional<ServedRequest> request = read_request(connection)) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(*request);
      }
      answer(connection, handler_(*request), request->method == "HEAD");
    }
    ::close(connection);
  }

  std::optional<ServedRequest> read_request(int connection) {
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos) {
      if (stopping_) return std::nullopt;
      if (!wait_for(connection, POLLIN)) continue;
      char buffer[4096];
      const ssize_t count = ::recv(connection, buffer, sizeof buffer, 0);
      if (count <= 0) return std::nullopt;
      text.append(buffer, static_cast<std::size_t>(count));
    }
    ServedRequest request;
    const std::size_t blank = text.find(' '), second = text.find(' ', blank + 1);
    request.method = text.substr(0, blank);
    request.target = text.substr(blank + 1, second - blank - 1);
    for (std::size_t at = text.find("\r\n") + 2; text.compare(at, 2, "\r\n") != 0;) {
      const std::size_t end = text.find("\r\n", at), colon = text.find(": ", at);
      std::string name = text.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers[name] = text.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return request;
  }

  // False when the other side has gone, or the server ends.
  bool send_all(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      if (stopping_) return false;
      if (!wait_for(connection, POLLOUT)) continue;
      const ssize_t count = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  void answer(int connection, const ServedReply& reply, bool head) {
    std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " Said\r\nConnection: close\r\n";
    for (const auto& [name, value] : reply.headers) text += name + ": " + value + "\r\n";
    if (reply.with_length && !reply.endless) text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    if (!send_all(connection, text + "\r\n") || head) return;
    const std::size_t most = std::min(reply.cut_after.value_or(SIZE_MAX), reply.stall_after.value_or(SIZE_MAX));
    do {
      if (!send_all(connection, std::string_view(reply.body).substr(0, most))) return;
    } while (reply.endless);
    while (reply.stall_after && !stopping_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  Handler handler_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread acceptor_;
  std::vector<std::thread> connections_;
  mutable std::mutex mutex_;
  std::vector<ServedRequest> requests_;
};

}  // namespace sparkx::testing
