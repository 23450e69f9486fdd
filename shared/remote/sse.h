#pragma once
// Reads server-sent events as they come
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).

#include <functional>
#include <string>
#include <string_view>

namespace holdfast::remote {

/// One event.
struct SseEvent {
  std::string id;    // empty: the event has none
  std::string type;  // of its line `event:`; empty: a plain message
  std::string data;  // lines joined by line breaks
};

/// Cuts bytes into events. Not thread-safe.
class SseReader {
 public:
  explicit SseReader(std::function<bool(const SseEvent&)> on_event)
      : on_event_(std::move(on_event)) {}
  /// Takes the next bytes. False: `on_event` returned false, or an event has more than 16 MiB.
  bool feed(std::string_view bytes);

 private:
  bool take_line(std::string_view line);

  std::function<bool(const SseEvent&)> on_event_;
  std::string line_;  // the beginning of one that is not whole
  SseEvent event_;
  bool has_data_ = false;
};

}  // namespace holdfast::remote
