// Goal: a webhook is signed as Standard Webhooks says, so that its libraries verify it; a URL is
// parsed in one way only; no address of this machine or of a private network passes for a public
// one. Method: the standard's own example; lists of URLs and addresses.
#include <gtest/gtest.h>

#include "shared/base/base64.h"
#include "shared/client/webhook.h"

namespace holdfast::client::webhook_test {
namespace {

TEST(Webhook, Signature_WithStandardWebhooksExample_Matches) {
  const auto signature =
      sign_webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek",
                   1614265330, R"({"test": 2432232314})");
  ASSERT_TRUE(signature);
  EXPECT_EQ(*signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  for (const char* bad : {"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_?"}) {
    EXPECT_FALSE(sign_webhook(bad, "msg", 1, "{}")) << bad;
  }
}

TEST(Webhook, WebhookSecret_WhenGenerated_IsRandomAndLongEnough) {
  const std::string secret = new_webhook_secret();
  EXPECT_TRUE(secret.starts_with("whsec_"));
  EXPECT_EQ(from_base64(secret.substr(6)).value().size(), 32u);
  EXPECT_NE(secret, new_webhook_secret());
  EXPECT_TRUE(sign_webhook(secret, "msg", 1, "{}"));
}

TEST(Webhook, WebhookUrl_WhenMalformed_IsRefused) {
  const auto plain = parse_webhook_url("https://example.com");
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->https);
  EXPECT_EQ(plain->host + plain->path, "example.com/");
  EXPECT_EQ(plain->port, 443);
  const auto whole = parse_webhook_url("http://a.example:8080/x/y?z=1");
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole->https);
  EXPECT_EQ(whole->port, 8080);
  EXPECT_EQ(whole->path, "/x/y?z=1");
  EXPECT_EQ(parse_webhook_url("https://a.example?q")->path, "/?q");
  const auto six = parse_webhook_url("https://[2606:4700::1111]:444/p");
  ASSERT_TRUE(six);
  EXPECT_TRUE(six->numeric);
  EXPECT_EQ(six->host, "2606:4700::1111");
  EXPECT_EQ(six->port, 444);
  for (const char* bad : {"",
                          "example.com",
                          "ftp://a/",
                          "https://",
                          "https:///p",
                          "https://u@a/",
                          "https://a:b@c/",
                          "https://a:0/",
                          "https://a:65536/",
                          "https://a:/",
                          "https://a:1x/",
                          "https://[::1/",
                          "https://[a.example]/",
                          "https://[::1]x/",
                          "https://a b/",
                          "https://a/\r\nX: y",
                          "https://a\\@b/",
                          "https://a/#f",
                          "https://a%2eb/",
                          "HTTPS://a/"}) {
    EXPECT_FALSE(parse_webhook_url(bad)) << bad;
  }
}

TEST(Webhook, IpAddress_WhenNotPublic_IsRefused) {
  for (const char* address : {"0.0.0.0",
                              "10.1.2.3",
                              "100.64.0.1",
                              "100.127.255.255",
                              "127.0.0.1",
                              "127.255.0.1",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.8",
                              "192.168.1.1",
                              "198.18.0.1",
                              "198.19.255.255",
                              "203.0.113.7",
                              "224.0.0.1",
                              "239.255.255.250",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "::ffff:127.0.0.1",
                              "::ffff:8.8.8.8",
                              "::127.0.0.1",
                              "64:ff9b::7f00:1",
                              "fe80::1",
                              "fe80::1%eth0",
                              "fc00::1",
                              "fd12:3456::1",
                              "ff02::1",
                              "fec0::1",
                              "2001:db8::1",
                              "2002:7f00:1::",
                              "2001::1",
                              "100::1",
                              "",
                              "localhost",
                              "1.2.3",
                              "0x7f.1",
                              "017700000001"}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
  for (const char* address : {"1.1.1.1", "8.8.8.8", "100.63.0.1", "100.128.0.1", "172.15.0.1",
                              "172.32.0.1", "192.169.0.1", "223.255.255.255", "2606:4700::1111",
                              "2a00:1450:4001::1", "2001:4860:4860::8888"}) {
    EXPECT_TRUE(is_public_address(address)) << address;
  }
}

}  // namespace
}  // namespace holdfast::client::webhook_test
