#include "shared/wire/liveness.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/wire/curve.h"

namespace holdfast::wire {
namespace {

// Numbers are little-endian, as the machines of this program are.
constexpr std::string_view kMagic = "HFLV";
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeadBytes = 24;    // magic, version, direction, workers, session, counter
constexpr std::size_t kNodeBytes = 12;    // last_received, run_delay_us
constexpr std::size_t kWorkerBytes = 20;  // pid, state and three zeros, stopped_ms, held_up_us
constexpr std::size_t kTagBytes = 32;

enum class Direction : std::uint8_t { kFromNode = 1, kFromDaemon = 2 };

static_assert(kHeadBytes + kNodeBytes + kDatagramWorkersMax * kWorkerBytes + kTagBytes <=
              kDatagramBytesMax);

struct Head {
  Direction direction;
  std::uint16_t workers;
  std::uint64_t session, counter;
};

template <class T>
void put(std::string& to, T value) {
  static_assert(std::is_integral_v<T>);
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_head(std::string& to, const Head& head) {
  to.append(kMagic);
  put(to, kVersion);
  put(to, static_cast<std::uint8_t>(head.direction));
  put(to, head.workers);
  put(to, head.session);
  put(to, head.counter);
}

std::array<unsigned char, kTagBytes> tag_of(std::string_view bytes, const LivenessKey& key) {
  std::array<unsigned char, kTagBytes> tag{};
  const int rc = crypto_generichash(tag.data(), tag.size(),
                                    reinterpret_cast<const unsigned char*>(bytes.data()),
                                    bytes.size(), key.data(), key.size());
  CHECK(rc == 0);
  return tag;
}

std::string with_tag(std::string bytes, const LivenessKey& key) {
  const auto tag = tag_of(bytes, key);
  bytes.append(reinterpret_cast<const char*>(tag.data()), tag.size());
  return bytes;
}

std::size_t length_of(const Head& head) {
  const std::size_t rest =
      head.direction == Direction::kFromNode ? kNodeBytes + head.workers * kWorkerBytes : 0;
  return kHeadBytes + rest + kTagBytes;
}

/// Reads the head of a datagram whose length is as the head says.
std::optional<Head> head_of(std::string_view bytes, Direction direction) {
  if (bytes.size() < kHeadBytes + kTagBytes || bytes.size() > kDatagramBytesMax)
    return std::nullopt;
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  ByteReader reader(ByteSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
  (void)reader.read_bytes(kMagic.size());
  const auto version = *reader.read<std::uint8_t>();
  const auto read_direction = *reader.read<std::uint8_t>();
  Head head{direction, *reader.read<std::uint16_t>(), *reader.read<std::uint64_t>(),
            *reader.read<std::uint64_t>()};
  const bool mine = version == kVersion && read_direction == static_cast<std::uint8_t>(direction);
  const bool from_daemon = direction == Direction::kFromDaemon;
  const std::size_t most = from_daemon ? 0 : kDatagramWorkersMax;
  if (!mine || head.workers > most || bytes.size() != length_of(head)) return std::nullopt;
  return head;
}

bool has_tag_of(std::string_view bytes, const LivenessKey& key) {
  const auto tag = tag_of(bytes.substr(0, bytes.size() - kTagBytes), key);
  return sodium_memcmp(tag.data(), bytes.data() + bytes.size() - kTagBytes, kTagBytes) == 0;
}

/// Reads a worker; nullopt for a state that there is not.
std::optional<WorkerFact> read_worker(ByteReader& reader) {
  WorkerFact fact;
  fact.pid = *reader.read<std::uint32_t>();
  const auto state = *reader.read<std::uint32_t>();  // its upper three bytes are zero
  if (state > static_cast<std::uint32_t>(WorkerFact::State::kEnded)) return std::nullopt;
  fact.state = static_cast<WorkerFact::State>(state);
  fact.stopped_ms = *reader.read<std::uint32_t>();
  fact.held_up_us = *reader.read<std::uint64_t>();
  return fact;
}

}  // namespace

LivenessSession new_liveness_session() {
  CHECK(sodium_init() >= 0);
  LivenessSession session;
  randombytes_buf(session.key.data(), session.key.size());
  while (session.id == 0) randombytes_buf(&session.id, sizeof session.id);
  return session;
}

std::string liveness_key_text(const LivenessKey& key) {
  return curve_key_text({reinterpret_cast<const char*>(key.data()), key.size()});
}

std::optional<LivenessKey> parse_liveness_key(const std::string& text) {
  const std::string bytes = curve_key_bytes(text);
  if (bytes.size() != kLivenessKeyBytes) return std::nullopt;
  LivenessKey key;
  std::memcpy(key.data(), bytes.data(), key.size());
  return key;
}

std::string seal(const NodeDatagram& datagram, const LivenessKey& key) {
  CHECK(datagram.workers.size() <= kDatagramWorkersMax);
  std::string bytes;
  put_head(bytes, {Direction::kFromNode, static_cast<std::uint16_t>(datagram.workers.size()),
                   datagram.session, datagram.counter});
  put(bytes, datagram.last_received);
  put(bytes, datagram.run_delay_us);
  for (const WorkerFact& worker : datagram.workers) {
    put(bytes, worker.pid);
    put(bytes, static_cast<std::uint32_t>(worker.state));
    put(bytes, worker.stopped_ms);
    put(bytes, worker.held_up_us);
  }
  return with_tag(std::move(bytes), key);
}

std::string seal(const DaemonDatagram& datagram, const LivenessKey& key) {
  std::string bytes;
  put_head(bytes, {Direction::kFromDaemon, 0, datagram.session, datagram.counter});
  return with_tag(std::move(bytes), key);
}

std::optional<std::uint64_t> session_of_node_datagram(std::string_view bytes) {
  const auto head = head_of(bytes, Direction::kFromNode);
  if (!head) return std::nullopt;
  return head->session;
}

std::optional<NodeDatagram> open_node_datagram(std::string_view bytes, const LivenessKey& key) {
  const auto head = head_of(bytes, Direction::kFromNode);
  if (!head || !has_tag_of(bytes, key)) return std::nullopt;
  ByteReader reader(ByteSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
  (void)reader.read_bytes(kHeadBytes);
  NodeDatagram datagram{head->session, head->counter, 0, 0, {}};
  datagram.last_received = *reader.read<std::uint64_t>();
  datagram.run_delay_us = *reader.read<std::uint32_t>();
  for (std::uint16_t i = 0; i < head->workers; ++i) {
    const auto worker = read_worker(reader);
    if (!worker) return std::nullopt;
    datagram.workers.push_back(*worker);
  }
  return datagram;
}

std::optional<DaemonDatagram> open_daemon_datagram(std::string_view bytes, const LivenessKey& key) {
  const auto head = head_of(bytes, Direction::kFromDaemon);
  if (!head || !has_tag_of(bytes, key)) return std::nullopt;
  return DaemonDatagram{head->session, head->counter};
}

}  // namespace holdfast::wire
