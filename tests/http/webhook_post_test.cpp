// Goal: a webhook goes only to its target: certificates and names are verified, addresses that are
// not public are not even connected to, a target that says nothing is given up. Method: the
// gateway's own server as the target, with a certificate of the test's own.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "control/gateway/http/tls.h"
#include "control/gateway/webhooks/webhook_post.h"
#include "tests/http/certificate.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::webhook_post_test {
namespace {

using gateway::send_webhook;
using gateway::WebhookAnswer;
using gateway::WebhookPost;

struct Target : testing::Test {
  void SetUp() override {
    std::string folder = std::filesystem::temp_directory_path() / "hf-hook-XXXXXX";
    CHECK(mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    std::ofstream(folder_ / "cert.pem") << identity.cert;
    std::ofstream(folder_ / "key.pem") << identity.key;
    tls = gateway::TlsIdentity::load(folder_ / "cert.pem", folder_ / "key.pem").value();
  }
  void TearDown() override {
    unsetenv("SSL_CERT_FILE");
    std::filesystem::remove_all(folder_);
  }
  void trust() const { setenv("SSL_CERT_FILE", (folder_ / "cert.pem").c_str(), 1); }
  static WebhookPost to(const std::string& url, bool may_be_private = true) {
    WebhookPost post;
    post.url = client::parse_webhook_url(url).value();
    post.may_be_private = may_be_private;
    post.headers = {{"webhook-id", "msg_1"}};
    post.body = R"({"model":"m","prompt":"x"})";
    return post;
  }
  static std::string port_of(const std::string& address) {
    return address.substr(address.rfind(':'));
  }

  std::filesystem::path folder_;
  const Certificate identity = make_certificate("target");
  std::shared_ptr<gateway::TlsIdentity> tls;
};

TEST_F(Target, Webhook_WhenCertificateIsUntrusted_IsNotSent) {
  Gateway target({}, tls);
  const std::string port = port_of(target.address());
  const WebhookAnswer stranger = send_webhook(to("https://127.0.0.1" + port + "/v1/completions"));
  EXPECT_EQ(stranger.status, 0);
  EXPECT_NE(stranger.error.find("certificate"), std::string::npos) << stranger.error;
  trust();
  const WebhookAnswer good = send_webhook(to("https://127.0.0.1" + port + "/v1/completions"));
  EXPECT_EQ(good.status, 200) << good.error;
  // The certificate is 127.0.0.1's.
  const WebhookAnswer other_name = send_webhook(to("https://localhost" + port + "/v1/completions"));
  EXPECT_EQ(other_name.status, 0);
  EXPECT_EQ(target.client.submits(), 1);
}

TEST_F(Target, Webhook_WhenAddressIsNotPublic_DoesNotConnect) {
  trust();
  Gateway target({}, tls);
  const std::string port = port_of(target.address());
  for (const char* host : {"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"}) {
    const WebhookAnswer answer =
        send_webhook(to("https://" + std::string(host) + port + "/v1/completions", false));
    EXPECT_EQ(answer.status, 0) << host;
    EXPECT_NE(answer.error.find("not public"), std::string::npos) << answer.error;
  }
  const WebhookAnswer plain = send_webhook(to("http://127.0.0.1" + port + "/", false));
  EXPECT_EQ(plain.status, 0);
  EXPECT_EQ(target.server().stats()->connections_accepted, 0u);
}

TEST_F(Target, Webhook_WithPlainHttpAllowed_ReturnsTheTargetsStatus) {
  Gateway target;
  const std::string url = "http://127.0.0.1" + port_of(target.address());
  EXPECT_EQ(send_webhook(to(url + "/v1/completions")).status, 200);
  EXPECT_EQ(send_webhook(to(url + "/nowhere")).status, 404);
}

TEST_F(Target, Webhook_WhenTargetIsSilent_TimesOut) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  socklen_t size = sizeof at;
  getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size);
  const std::string port = ":" + std::to_string(ntohs(at.sin_port));
  for (const char* scheme : {"http", "https"}) {
    WebhookPost post = to(std::string(scheme) + "://127.0.0.1" + port + "/");
    post.limit = std::chrono::milliseconds(200);
    const WebhookAnswer answer = send_webhook(post);
    EXPECT_EQ(answer.status, 0);
    EXPECT_FALSE(answer.error.empty());
  }
  close(listener);
  EXPECT_EQ(send_webhook(to("http://127.0.0.1" + port + "/")).status, 0) << "nobody listens";
}

}  // namespace
}  // namespace holdfast::test::webhook_post_test
