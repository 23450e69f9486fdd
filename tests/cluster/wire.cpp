#include "tests/cluster/wire.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::cluster {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kDelayUsMax = 60'000'000;
constexpr std::int64_t kRateMax = 100'000'000'000;
constexpr std::size_t kBlockedMax = 256;
constexpr std::size_t kIpv4HeaderBytes = 20;
constexpr int kPacketsATurn = 64;            // of one device, before the other has its turn
constexpr std::size_t kPacketBytes = 65536;  // the longest IP packet, and one more

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

const char* name_of(End end) {
  return end == End::kA ? "a" : "b";
}

/// The numbers that a command may set.
struct Setting {
  const char* name;
  std::int64_t LineSettings::*member;
  std::int64_t most;
};
constexpr Setting kSettings[] = {{"delay", &LineSettings::delay_us, kDelayUsMax},
                                 {"loss", &LineSettings::loss_permille, 1000},
                                 {"rate", &LineSettings::rate_bytes_per_s, kRateMax}};

/// The counters by their names.
struct Counter {
  const char* name;
  std::int64_t LineCounters::*member;
};
constexpr Counter kCounters[] = {{"received", &LineCounters::received},
                                 {"delivered", &LineCounters::delivered},
                                 {"lost", &LineCounters::lost},
                                 {"cut", &LineCounters::cut},
                                 {"overflowed", &LineCounters::overflowed},
                                 {"refused", &LineCounters::refused},
                                 {"queued", &LineCounters::queued}};

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || at != end) return std::nullopt;
  return value;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

Error bad_command(const std::string& what) {
  return {Errc::kInvalidRequest, what};
}

/// The directions of a command's word at `index`, both if it has none.
Result<std::vector<End>> directions_of(const std::vector<std::string>& words, std::size_t index) {
  if (words.size() > index + 1) return bad_command("too many words: " + words[index + 1]);
  if (words.size() == index || words[index] == "both") return std::vector<End>{End::kA, End::kB};
  if (words[index] == "a") return std::vector<End>{End::kA};
  if (words[index] == "b") return std::vector<End>{End::kB};
  return bad_command("direction " + words[index] + ": expected a, b or both");
}

/// The number of a command that sets one.
Result<std::int64_t> value_of(const Setting& setting, const std::vector<std::string>& words) {
  const auto value = words.size() > 1 ? number(words[1]) : std::nullopt;
  if (value && *value >= 0 && *value <= setting.most) return *value;
  return bad_command(words[0] + ": expected a number from 0 to " + std::to_string(setting.most));
}

/// Sets the counter of a word "name=7", if it is one.
void set_counter(LineCounters& line, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return;
  for (const Counter& counter : kCounters) {
    if (word.substr(0, equals) != counter.name) continue;
    line.*(counter.member) = number(word.substr(equals + 1)).value_or(0);
  }
}

}  // namespace

void Line::cut() {
  is_cut_ = true;
  counters_.cut += static_cast<std::int64_t>(queue_.size());
  queue_.clear();
  queued_bytes_ = 0;
  line_free_ns_ = 0;
  last_due_ns_ = 0;
}

void Line::block(const std::string& address) {
  if (blocked_.size() < kBlockedMax) blocked_.push_back(address);
  std::erase_if(queue_, [&](const Packet& packet) {
    if (!is_blocked(packet.bytes)) return false;
    ++counters_.cut;
    queued_bytes_ -= packet.bytes.size();
    return true;
  });
}

void Line::heal() {
  is_cut_ = false;
  blocked_.clear();
}

bool Line::is_blocked(std::string_view packet) const {
  const bool is_ipv4 = packet.size() >= kIpv4HeaderBytes && (packet[0] & 0xf0) == 0x40;
  return is_ipv4 && std::ranges::any_of(blocked_, [&](const std::string& address) {
           return packet.substr(12, 4) == address || packet.substr(16, 4) == address;
         });
}

bool Line::has_space_for(std::size_t bytes, std::int64_t wait_ns) const {
  return wait_ns <= kRateWaitMaxNs && queue_.size() < kPacketsMax &&
         queued_bytes_ + bytes <= kBytesMax;
}

void Line::offer(std::string_view packet, std::int64_t now_ns) {
  ++counters_.received;
  const auto draw = static_cast<std::int64_t>(random_() % 1000);  // for each packet: see the seed
  if (is_cut_ || is_blocked(packet)) {
    ++counters_.cut;
    return;
  }
  if (draw < settings_.loss_permille) {
    ++counters_.lost;
    return;
  }
  const std::int64_t rate = settings_.rate_bytes_per_s;
  const std::int64_t begin_ns = rate > 0 ? std::max(now_ns, line_free_ns_) : now_ns;
  if (!has_space_for(packet.size(), begin_ns - now_ns)) {
    ++counters_.overflowed;
    return;
  }
  const auto bytes = static_cast<std::int64_t>(packet.size());
  line_free_ns_ = rate > 0 ? begin_ns + bytes * kNsPerSecond / rate : begin_ns;
  last_due_ns_ = std::max(last_due_ns_, line_free_ns_ + settings_.delay_us * 1000);
  queue_.push_back({last_due_ns_, std::string(packet)});
  queued_bytes_ += packet.size();
}

std::optional<std::int64_t> Line::next_due_ns() const {
  if (queue_.empty()) return std::nullopt;
  return queue_.front().due_ns;
}

std::optional<std::string> Line::take_due(std::int64_t now_ns) {
  if (queue_.empty() || queue_.front().due_ns > now_ns) return std::nullopt;
  std::string bytes = std::move(queue_.front().bytes);
  queue_.pop_front();
  queued_bytes_ -= bytes.size();
  return bytes;
}

LineCounters Line::counters() const {
  LineCounters counters = counters_;
  counters.queued = static_cast<std::int64_t>(queue_.size());
  return counters;
}

std::string Wire::command(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  if (words == std::vector<std::string>{"counters"}) {
    return "ok " + counters_text({line(End::kA).counters(), line(End::kB).counters()});
  }
  const Result<void> changed = change(words);
  return changed ? "ok" : "error: " + changed.error().what;
}

Result<void> Wire::change(const std::vector<std::string>& words) {
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "cut" || verb == "block" || verb == "heal") return interrupt(words);
  const auto* setting = std::find_if(std::begin(kSettings), std::end(kSettings),
                                     [&](const Setting& one) { return verb == one.name; });
  if (setting == std::end(kSettings)) {
    return bad_command("command '" + verb +
                       "': expected delay, loss, rate, cut, block, heal or counters");
  }
  HOLDFAST_TRY(const std::int64_t value, value_of(*setting, words));
  HOLDFAST_TRY(const std::vector<End> ends, directions_of(words, 2));
  for (const End end : ends) line(end).settings().*(setting->member) = value;
  return {};
}

/// Cuts, blocks and heals.
Result<void> Wire::interrupt(const std::vector<std::string>& words) {
  const bool blocks = words[0] == "block";
  std::string address(4, '\0');
  if (blocks && (words.size() < 2 || inet_pton(AF_INET, words[1].c_str(), address.data()) != 1)) {
    return bad_command("block: expected an IPv4 address");
  }
  HOLDFAST_TRY(const std::vector<End> ends, directions_of(words, blocks ? 2 : 1));
  for (const End end : ends) {
    if (blocks) line(end).block(address);
    if (words[0] == "cut") line(end).cut();
    if (words[0] == "heal") line(end).heal();
  }
  return {};
}

std::string counters_text(const WireCounters& counters) {
  std::string text;
  for (const End end : {End::kA, End::kB}) {
    const LineCounters& line = end == End::kA ? counters.a : counters.b;
    text += (text.empty() ? "" : " ") + std::string(name_of(end));
    for (const Counter& counter : kCounters) {
      text += std::string(" ") + counter.name + "=" + std::to_string(line.*(counter.member));
    }
  }
  return text;
}

Result<WireCounters> parse_counters(const std::string& text) {
  WireCounters counters;
  LineCounters* line = nullptr;
  for (const std::string& word : words_of(text)) {
    if (word == "a") line = &counters.a;
    if (word == "b") line = &counters.b;
    if (line != nullptr) set_counter(*line, word);
  }
  const auto without_ok = text.rfind("ok ", 0) == 0 ? text.substr(3) : text;
  if (counters_text(counters) != without_ok) return bad_command("no counters: " + text);
  return counters;
}

Relay::~Relay() {
  for (const Connection& connection : connections_) close(connection.fd);
}

Error Relay::run() {
  for (;;) {
    for (const End from : {End::kA, End::kB}) {
      if (const auto delivered = deliver(from); !delivered) return delivered.error();
    }
    if (const auto served = wait_and_serve(); !served) return served.error();
    for (const End from : {End::kA, End::kB}) {
      if (const auto taken = take_in(from); !taken) return taken.error();
    }
  }
}

/// Writes what is due. A device that is down refuses packets, which is counted.
Result<void> Relay::deliver(End from) {
  const int fd = device(from == End::kA ? End::kB : End::kA);
  Line& line = wire_.line(from);
  while (auto packet = line.take_due(now_ns())) {
    const bool taken = write(fd, packet->data(), packet->size()) >= 0;
    if (!taken && errno == EBADFD) {
      return Error{Errc::kIo, "write to the device of an end: the device is gone"};
    }
    line.count_delivery(taken);
  }
  return {};
}

Result<void> Relay::take_in(End from) {
  char packet[kPacketBytes];
  for (int i = 0; i < kPacketsATurn; ++i) {
    const ssize_t n = read(device(from), packet, sizeof packet);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (n < 0) {
      return Error{Errc::kIo, std::string("read the device of end ") + name_of(from) + ": " +
                                  std::strerror(errno) + "; the device is gone"};
    }
    wire_.line(from).offer({packet, static_cast<std::size_t>(n)}, now_ns());
  }
  return {};
}

std::optional<std::int64_t> Relay::next_due_ns() {
  const auto a = wire_.line(End::kA).next_due_ns();
  const auto b = wire_.line(End::kB).next_due_ns();
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

/// Waits until a packet is due or arrives, or somebody has a command; answers commands.
Result<void> Relay::wait_and_serve() {
  std::vector<pollfd> items = {
      {descriptors_.a, POLLIN, 0}, {descriptors_.b, POLLIN, 0}, {descriptors_.listener, POLLIN, 0}};
  for (const Connection& connection : connections_) items.push_back({connection.fd, POLLIN, 0});
  const auto due = next_due_ns();
  const std::int64_t wait_ns = due ? std::max<std::int64_t>(0, *due - now_ns()) : 0;
  const timespec wait{wait_ns / kNsPerSecond, wait_ns % kNsPerSecond};
  const int ready = ppoll(items.data(), items.size(), due ? &wait : nullptr, nullptr);
  if (ready <= 0) return {};
  for (const std::size_t i : {0, 1}) {
    if ((items[i].revents & (POLLERR | POLLNVAL)) == 0) continue;
    return Error{Errc::kIo, std::string("poll the device of end ") + (i == 0 ? "a" : "b") +
                                ": the device is gone"};
  }
  serve_ready(items);
  return {};
}

/// Serves the connections that can be read, closes those that are over, and takes a new one.
void Relay::serve_ready(const std::vector<pollfd>& items) {
  std::vector<Connection> open;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (items[i + 3].revents == 0 || serve(connections_[i])) {
      open.push_back(std::move(connections_[i]));
    } else {
      close(connections_[i].fd);
    }
  }
  connections_ = std::move(open);
  if (items[2].revents != 0) accept_connection();
}

void Relay::accept_connection() {
  const int fd = accept4(descriptors_.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  if (connections_.size() < kConnectionsMax) {
    connections_.push_back({fd, ""});
  } else {
    close(fd);
  }
}

/// Reads commands and answers them. Returns false at the connection's end, and if its peer sends an
/// endless command or does not read its answers.
bool Relay::serve(Connection& connection) {
  char buffer[kCommandBytesMax];
  const ssize_t n = recv(connection.fd, buffer, sizeof buffer, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) return false;
  connection.input.append(buffer, static_cast<std::size_t>(n));
  return answer_commands(connection) && connection.input.size() <= kCommandBytesMax;
}

bool Relay::answer_commands(Connection& connection) {
  for (std::size_t end = 0; (end = connection.input.find('\n')) != std::string::npos;) {
    const std::string answer = wire_.command(connection.input.substr(0, end)) + "\n";
    connection.input.erase(0, end + 1);
    const ssize_t sent = send(connection.fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(answer.size())) return false;
  }
  return true;
}

}  // namespace holdfast::cluster
