// Goal: a datagram of liveness is believed only as it was written, by who has the key of the
// session; what comes from the network otherwise is refused and harms nothing. Method: round trips;
// a million datagrams with changed, missing and added bytes; the same with tags that are right, so
// that the reading behind the tag is reached.
#include "shared/wire/liveness.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sodium.h>

#include <cstdio>
#include <random>
#include <set>
#include <string>

#include "shared/wire/udp.h"

namespace holdfast::wire::liveness_test {
namespace {

constexpr std::size_t kTagBytes = 32;
constexpr int kMutations = 1'000'000;

LivenessKey key_of(std::uint8_t fill) {
  LivenessKey key;
  key.fill(fill);
  return key;
}

NodeDatagram made(std::mt19937_64& random, std::size_t workers) {
  NodeDatagram datagram{random(), random(), random(), static_cast<std::uint32_t>(random()), {}};
  for (std::size_t i = 0; i < workers; ++i) {
    datagram.workers.push_back({static_cast<std::uint32_t>(random()),
                                static_cast<WorkerFact::State>(random() % 3),
                                static_cast<std::uint32_t>(random()), random()});
  }
  return datagram;
}

/// Changes, cuts or lengthens the bytes; never returns them as they were.
std::string mutated(std::string bytes, std::mt19937_64& random) {
  const std::string before = bytes;
  while (bytes == before) {
    for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
      switch (random() % 8) {
        case 0:
          bytes.resize(at);
          break;
        case 1:
          bytes.append(random() % 64, static_cast<char>(random()));
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          if (!bytes.empty()) bytes[at] = static_cast<char>(random());
      }
    }
  }
  return bytes;
}

void put_right_tag(std::string& bytes, const LivenessKey& key) {
  if (bytes.size() < kTagBytes) return;
  const std::size_t length = bytes.size() - kTagBytes;
  auto* raw = reinterpret_cast<unsigned char*>(bytes.data());
  crypto_generichash(raw + length, kTagBytes, raw, length, key.data(), key.size());
}

TEST(Liveness, Datagrams_OfAllSizes_AreReadAsTheyWereWritten) {
  std::mt19937_64 random(1);
  const LivenessKey key = key_of(7);
  for (std::size_t workers = 0; workers <= kDatagramWorkersMax; ++workers) {
    const NodeDatagram datagram = made(random, workers);
    const std::string bytes = seal(datagram, key);
    EXPECT_LE(bytes.size(), kDatagramBytesMax);
    EXPECT_EQ(session_of_node_datagram(bytes), datagram.session);
    EXPECT_EQ(open_node_datagram(bytes, key), datagram);
  }
  const DaemonDatagram back{random(), random()};
  EXPECT_EQ(open_daemon_datagram(seal(back, key), key), back);
}

TEST(Liveness, Datagram_OfAnotherKeyOrDirection_IsRefused) {
  std::mt19937_64 random(2);
  const LivenessKey key = key_of(7);
  const std::string node = seal(made(random, 0), key);
  const std::string daemon = seal(DaemonDatagram{5, 6}, key);
  EXPECT_FALSE(open_node_datagram(node, key_of(8)));
  EXPECT_FALSE(open_daemon_datagram(daemon, key_of(8)));
  EXPECT_FALSE(open_daemon_datagram(node, key)) << "an answer made of the question";
  EXPECT_FALSE(open_node_datagram(daemon, key));
  EXPECT_FALSE(session_of_node_datagram(daemon));
}

TEST(Liveness, AMillionMutatedDatagrams_AreAllRefused) {
  std::mt19937_64 random(3);
  const LivenessKey key = key_of(7);
  std::string bytes;
  int formed = 0;
  for (int i = 0; i < kMutations; ++i) {
    if (i % 1000 == 0) bytes = seal(made(random, random() % (kDatagramWorkersMax + 1)), key);
    const std::string bad = mutated(bytes, random);
    formed += session_of_node_datagram(bad).has_value();
    ASSERT_FALSE(open_node_datagram(bad, key)) << "mutation " << i;
    ASSERT_FALSE(open_daemon_datagram(bad, key)) << "mutation " << i;
  }
  EXPECT_GT(formed, kMutations / 10) << "else the tag decided about little";
  std::printf("%d of %d had the form of a datagram\n", formed, kMutations);
}

TEST(Liveness, MutatedDatagrams_WithTheRightTag_AreReadWithinTheirBounds) {
  std::mt19937_64 random(4);
  const LivenessKey key = key_of(7);
  int read = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string bad = mutated(seal(made(random, random() % 6), key), random);
    put_right_tag(bad, key);
    const auto datagram = open_node_datagram(bad, key);
    if (!datagram) continue;
    ++read;
    ASSERT_LE(datagram->workers.size(), kDatagramWorkersMax);
    ASSERT_EQ(seal(*datagram, key), bad) << "every byte of what is read counts";
  }
  EXPECT_GT(read, 10'000);
}

TEST(Liveness, SessionsAndKeys_AreDrawnAnewAndReadableAsText) {
  std::set<std::uint64_t> ids;
  std::set<LivenessKey> keys;
  for (int i = 0; i < 100; ++i) {
    const LivenessSession session = new_liveness_session();
    EXPECT_EQ(parse_liveness_key(liveness_key_text(session.key)), session.key);
    ids.insert(session.id);
    keys.insert(session.key);
  }
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(keys.size(), 100u);
  EXPECT_FALSE(ids.contains(0));
  EXPECT_FALSE(parse_liveness_key("no key"));
}

TEST(Udp, Datagrams_BetweenTwoSockets_ArriveWithTheirSender) {
  for (const std::string address : {"127.0.0.1", "[::1]"}) {
    auto server = UdpSocket::bind("tcp://" + address + ":0");
    if (!server && address == "[::1]") GTEST_SKIP() << server.error().what;
    ASSERT_TRUE(server.has_value()) << server.error().what;
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    ASSERT_EQ(getsockname(server->fd(), reinterpret_cast<sockaddr*>(&bound), &length), 0);
    const auto* four = reinterpret_cast<const sockaddr_in*>(&bound);  // the port is at one offset
    const std::string port = std::to_string(ntohs(four->sin_port));
    auto client = UdpSocket::open_to("tcp://" + address + ":" + port);
    ASSERT_TRUE(client.has_value()) << client.error().what;
    EXPECT_FALSE(server->receive());
    EXPECT_TRUE(client->send("question"));
    UdpAddress from;
    EXPECT_EQ(server->receive(&from), "question");
    EXPECT_TRUE(server->send_to(from, "answer"));
    EXPECT_EQ(client->receive(), "answer");
    EXPECT_TRUE(client->send(std::string(2 * kDatagramBytesMax, 'x')));
    EXPECT_EQ(server->receive()->size(), kDatagramBytesMax + 1) << "cut, so that it is refused";
  }
}

TEST(Udp, Endpoint_ThatIsNone_IsRefusedWithItsText) {
  for (const char* bad : {"", "ipc:///x", "tcp://", "tcp://host.invalid:1", "tcp://1.2.3.4:port"}) {
    const auto socket = UdpSocket::bind(bad);
    ASSERT_FALSE(socket.has_value()) << bad;
    EXPECT_NE(socket.error().what.find(bad), std::string::npos);
  }
}

}  // namespace
}  // namespace holdfast::wire::liveness_test
