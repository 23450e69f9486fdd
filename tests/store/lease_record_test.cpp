// Goal: the record works as a Lease does: created once, changed only by who has read its last
// version, and nothing else is taken for it. Method: a server in this process that keeps one Lease
// as the API of Kubernetes does (GET, POST, PUT with resourceVersion; 404, 409, 403); a real API
// server cannot be had here.
#include "control/replication/lease_record.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/store/temp_state.h"

namespace holdfast::replication::lease_record_test {
namespace {

using nlohmann::json;
using Outcome = RecordAnswer::Outcome;

/// One Lease "ns/main" behind HTTP.
class LeaseServer {
 public:
  LeaseServer() {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~LeaseServer() {
    stop_ = true;
    thread_.join();
    close(listener_);
  }
  LeaseServer(const LeaseServer&) = delete;
  LeaseServer& operator=(const LeaseServer&) = delete;
  const std::string& url() const { return url_; }
  json lease() {
    const std::lock_guard lock(mutex_);
    return lease_;
  }
  void set_lease(json lease) {
    const std::lock_guard lock(mutex_);
    lease_ = std::move(lease);
  }

 private:
  void run() {
    while (!stop_) {
      pollfd item{listener_, POLLIN, 0};
      if (poll(&item, 1, 20) <= 0) continue;
      const int fd = accept(listener_, nullptr, nullptr);
      serve(fd);
      close(fd);
    }
  }
  void serve(int fd) {
    std::string text;
    char bytes[4096];
    std::size_t end = std::string::npos;
    std::size_t length = 0;
    while (end == std::string::npos || text.size() < end + 4 + length) {
      const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
      if (n <= 0) return;
      text.append(bytes, static_cast<std::size_t>(n));
      end = text.find("\r\n\r\n");
      const std::size_t header = text.find("Content-Length: ");
      length = header < end ? std::strtoull(text.c_str() + header + 16, nullptr, 10) : 0;
    }
    const auto [status, body] = answer(text, text.substr(end + 4));
    const std::string out = body.dump();
    const std::string reply = "HTTP/1.1 " + std::to_string(status) +
                              " x\r\nContent-Length: " + std::to_string(out.size()) +
                              "\r\nConnection: close\r\n\r\n" + out;
    (void)send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
  }
  std::pair<int, json> answer(const std::string& request, const std::string& body) {
    const std::lock_guard lock(mutex_);
    const json failed = {{"message", "no"}};
    if (request.find("Authorization: Bearer secret\r\n") == std::string::npos) {
      return {403, failed};
    }
    const std::string method = request.substr(0, request.find(' '));
    if (method == "GET") return lease_.is_null() ? std::pair(404, failed) : std::pair(200, lease_);
    const json sent = json::parse(body, nullptr, false);
    if (!sent.is_object()) return {400, failed};
    const bool creates = method == "POST";
    const bool current =
        !creates && !lease_.is_null() &&
        sent["metadata"]["resourceVersion"] == lease_["metadata"]["resourceVersion"];
    if (creates ? !lease_.is_null() : !current) return {409, failed};
    lease_ = sent;
    lease_["metadata"]["resourceVersion"] = std::to_string(++version_);
    return {creates ? 201 : 200, lease_};
  }

  int listener_ = -1;
  std::string url_;
  std::mutex mutex_;
  json lease_;
  int version_ = 100;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class LeaseRecordTest : public testing::Test {
 protected:
  std::unique_ptr<RecordStore> record(const std::string& token) {
    const std::string file = state_.dir() + "/token-" + token;
    std::FILE* out = std::fopen(file.c_str(), "w");
    std::fputs((token + "\n").c_str(), out);
    std::fclose(out);
    return lease_record({server_.url(), "", file, "ns", "main"});
  }
  store::TempState state_;
  LeaseServer server_;
};

TEST_F(LeaseRecordTest, Changes_OfPrimaryAndStandby_AreThoseOfARecord) {
  const auto one = record("secret");
  const auto two = record("secret");
  EXPECT_EQ(one->read()->version, 0);
  EXPECT_EQ(claim_record(*one, "a", 0).outcome, Outcome::kDone);
  EXPECT_EQ(claim_record(*two, "b", 0).outcome, Outcome::kOther);
  EXPECT_EQ(set_in_step(*one, "a", 1, "b").outcome, Outcome::kDone);
  EXPECT_EQ(server_.lease()["metadata"]["annotations"]["holdfast/in-step"], "b");
  EXPECT_EQ(take_over(*two, "b", 1).outcome, Outcome::kDone);
  EXPECT_EQ(set_in_step(*one, "a", 1, "").outcome, Outcome::kOther);
  EXPECT_EQ(server_.lease()["spec"]["leaseTransitions"], 2);
  EXPECT_EQ(server_.lease()["spec"]["holderIdentity"], "b");
}

TEST_F(LeaseRecordTest, Write_OfAnOldVersion_IsRefused) {
  const auto one = record("secret");
  claim_record(*one, "a", 1);
  const auto now = one->read();
  ASSERT_TRUE(now.has_value());
  EXPECT_TRUE(one->write({1, "a", "b"}, now->version).value());
  EXPECT_FALSE(one->write({1, "a", ""}, now->version).value());
  EXPECT_FALSE(one->write({9, "z", ""}, 0).value()) << "there is one already";
}

TEST_F(LeaseRecordTest, Lease_OfSomethingElse_IsNoRecord) {
  server_.set_lease({{"metadata", {{"resourceVersion", "7"}}}, {"spec", json::object()}});
  EXPECT_EQ(record("secret")->read().error().code, Errc::kFileInvalid);
}

TEST_F(LeaseRecordTest, Account_WithoutRights_IsNamed) {
  const auto refused = record("wrong")->read();
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().what.find("service account"), std::string::npos)
      << refused.error().what;
}

TEST(LeaseAddress, Text_InAPodAndOutside_IsReadOrRefused) {
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_FALSE(parse_lease_address("k8s://ns/main").has_value());
  setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const auto address = parse_lease_address("k8s://ns/main");
  ASSERT_TRUE(address.has_value()) << address.error().what;
  EXPECT_EQ(address->server, "https://10.96.0.1:443");
  EXPECT_EQ(address->space, "ns");
  EXPECT_EQ(address->name, "main");
  for (const char* wrong : {"k8s://", "k8s://ns", "k8s:///main", "k8s://ns/", "http://a/b"}) {
    EXPECT_FALSE(parse_lease_address(wrong).has_value()) << wrong;
  }
  unsetenv("KUBERNETES_SERVICE_HOST");
}

}  // namespace
}  // namespace holdfast::replication::lease_record_test
