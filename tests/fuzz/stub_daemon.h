#pragma once
// A daemon for fuzzers of the gateway: it answers at once, on the caller's thread, and checks what
// it is sent as the real one does.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "shared/client/client.h"

namespace holdfast::fuzz {

class StubDaemon final : public client::Client {
 public:
  StubDaemon() { reset(); }
  /// Drops all objects but a file, a batch, two responses and two keys.
  void reset();
  bool refuses = false;  // requests
  bool is_away = false;

  client::Answer<wire::Accepted> submit(const client::Principal&, wire::Submit) override;
  client::Answer<wire::RequestInfo> status(const client::Caller&, const std::string&) override;
  client::Answer<wire::RequestInfo> cancel(const client::Caller&, const std::string&) override;
  client::Answer<std::vector<wire::ModelInfo>> models(const client::Caller&) override;
  client::Answer<std::string> op(const client::Caller&, const std::string&,
                                 const std::string&) override;
  void op_async(const client::Caller& caller, const std::string& verb, const std::string& args,
                std::function<void(client::Answer<std::string>)> done) override;
  void op_bytes_async(const client::Caller& caller, const std::string& verb,
                      const std::string& args, std::string bytes,
                      std::function<void(client::Answer<client::OpAnswer>)> done) override;
  void submit_async(const client::Principal& principal, wire::Submit submit,
                    std::function<void(client::Answer<wire::Accepted>)> done) override;
  void status_async(const client::Caller& caller, const std::string& request_id,
                    std::function<void(client::Answer<wire::RequestInfo>)> done) override;
  void cancel_async(const client::Caller& caller, const std::string& request_id,
                    std::function<void(client::Answer<wire::RequestInfo>)> done) override;
  void models_async(
      const client::Caller& caller,
      std::function<void(client::Answer<std::vector<wire::ModelInfo>>)> done) override;
  client::StreamId open_stream(const client::Caller& caller, const std::string& request_id,
                               std::vector<std::int64_t> from,
                               client::StreamHandler handler) override;
  void hold_stream(client::StreamId, bool) override {}
  void close_stream(client::StreamId, bool) override {}
  client::Answer<wire::RequestInfo> stream(const client::Caller&, const std::string&,
                                           std::vector<std::int64_t>,
                                           const std::function<void(const wire::Event&)>&) override;

 private:
  struct Object {
    std::int64_t seq = 0;
    std::int64_t version = 1;
    std::string body;
    std::string content;
  };
  using Objects = std::map<std::pair<std::string, std::string>, Object>;  // by kind and id
  struct VerbArguments;                                                   // arguments of a verb
  client::Answer<std::string> answer(const std::string& verb, const std::string& args);
  client::Answer<std::string> put(const VerbArguments& args);
  std::string get(const VerbArguments& args);
  std::string list(const VerbArguments& args);

  std::string bytes_;  // come with a verb, or go with its answer
  Objects objects_;
  bool changed_ = true;
  std::map<std::string, wire::RequestInfo> requests_;
};

}  // namespace holdfast::fuzz
