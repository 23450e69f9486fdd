#include "control/gateway/common/name_lookup.h"

#include <netdb.h>
#include <sys/socket.h>

#include <system_error>
#include <thread>

namespace holdfast::gateway {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // interval of asking `stopping`

NamesFound ask_system(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = AF_UNSPEC;
  addrinfo* found = nullptr;
  NamesFound out;
  const int rc = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (rc != 0) {
    out.error = "look up " + host + ": " + gai_strerror(rc);
    return out;
  }
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST)) {
      continue;
    }
    out.addresses.emplace_back(text);
  }
  freeaddrinfo(found);
  return out;
}

}  // namespace

NameLookup::NameLookup(Resolver resolver)
    : resolver_(resolver ? std::move(resolver) : Resolver(ask_system)) {}

NamesFound NameLookup::find(const std::string& host, std::chrono::milliseconds limit,
                            const std::function<bool()>& stopping) {
  const auto late = [&](const char* why) { return NamesFound{{}, "look up " + host + ": " + why}; };
  const auto now = [] { return std::chrono::steady_clock::now(); };
  std::unique_lock lock(state_->mutex);
  std::shared_ptr<Job>& at = state_->jobs[host];
  if (at == nullptr) {
    if (state_->jobs.size() > kThreadsMax) {
      state_->jobs.erase(host);
      return late("too many names are being looked up; the name server does not answer");
    }
    at = std::make_shared<Job>();
    at->since = now();
    try {
      std::thread([state = state_, job = at, resolver = resolver_, host] {
        NamesFound found = resolver(host);
        const std::lock_guard guard(state->mutex);
        job->found = std::move(found);
        job->done = true;
        state->jobs.erase(host);
        state->changed.notify_all();
      }).detach();
    } catch (const std::system_error& e) {
      state_->jobs.erase(host);
      return late(e.what());
    }
  }
  const std::shared_ptr<Job> job = at;
  // A second caller waits for what is left of the time of the first one.
  const auto due = job->since + limit;
  while (!job->done) {
    if (now() >= due) return late("the name server took too long");
    if (stopping && stopping()) return late("stopped");
    state_->changed.wait_until(lock, std::min(due, now() + kLook));
  }
  return job->found;
}

NameLookup& name_lookup() {
  static NameLookup lookup;
  return lookup;
}

}  // namespace holdfast::gateway
