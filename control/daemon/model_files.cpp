#include "control/daemon/model_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/core/admission.h"
#include "control/endpoints/names.h"
#include "shared/base/json_text.h"
#include "shared/base/roots.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

constexpr std::int64_t kRangeUs = 15'000'000;     // that a node may take for a range
constexpr std::int64_t kListUs = 3'600'000'000;   // for hashing a model
constexpr std::int64_t kLookAgainUs = 5'000'000;  // at a model that was not here
constexpr std::int64_t kReceiptUs = 60'000'000;   // the answer was lost, or its reader is gone
constexpr std::size_t kReceiptsMax = 64;
constexpr int kProbesMax = 8;  // of a connection
constexpr std::int64_t kProbeBytesMax = 512 << 10;

/// The nodes that have the model, besides the one that asks.
std::vector<std::string> nodes_with(const core::Machine& machine, const std::string& sha,
                                    const std::string& asking) {
  std::vector<std::string> names;
  for (const auto& [name, node] : machine.nodes().all()) {
    const bool has = node.models && node.models->contains(sha);
    if (has && node.peer != 0 && node.fetches && name != asking) names.push_back(name);
  }
  return names;
}

/// The registered model with this hash whose file may be read; nullptr: there is none.
const core::Model* model_with(const core::Machine& machine, const std::string& sha) {
  for (const auto& [name, model] : machine.registry().models()) {
    const bool same = !sha.empty() && model.row.sha == sha;
    if (same && allowed_by_roots(model.row.path, machine.config().model_roots)) return &model;
  }
  return nullptr;
}

std::string new_receipt() {
  return std::to_string(random_u64());
}

}  // namespace

std::string ModelFiles::Question::text(const char* name) const {
  const auto found = args.find(name);
  return found != args.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t ModelFiles::Question::integer(const char* name) const {
  const auto found = args.find(name);
  return found != args.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

ModelFiles::ModelFiles(ModelFilesOptions options)
    : options_(std::move(options)), reads_(options_.cache_dir, options_.wake) {}

bool ModelFiles::knows(const std::string& verb) {
  return verb == "node.chunks" || verb == "node.range" || verb == "node.offer" ||
         verb == "node.supply" || verb == "node.probe";
}

void ModelFiles::refuse(core::PeerId peer, std::uint64_t tag, Errc code, std::string why) {
  options_.send(peer, wire::OpResult{tag, false, core::refuse(code, std::move(why)), {}, {}});
}

void ModelFiles::ask(core::PeerId peer, const wire::Op& op, const std::string& node,
                     const core::Machine& machine, std::int64_t now_us) {
  const json args = op.args.empty() ? json::object() : try_parse_json<json>(op.args);
  if (!args.is_object()) {
    return refuse(peer, op.tag, Errc::kUsage, op.verb + ": arguments are not a JSON object");
  }
  Question question{peer, op.tag, node, now_us, machine, args};
  if (op.verb == "node.probe") {
    probe(question);
  } else if (op.verb == "node.offer") {
    relay_.offer(peer, op.tag, node, now_us);
  } else if (op.verb == "node.supply") {
    supply(question, op);
  } else {
    if (machine.config().nodes_fetch == 0) {
      return refuse(peer, op.tag, Errc::kUnauthorized,
                    op.verb + ": nodes.fetch is 0; models are not sent to nodes");
    }
    const std::string sha = question.text("sha");
    question.model = model_with(machine, sha);
    if (question.model == nullptr) {
      return refuse(peer, op.tag, Errc::kNotFound,
                    op.verb + ": no registered model has the SHA-256 \"" + sha + "\"");
    }
    op.verb == "node.chunks" ? chunks(question) : range(question);
  }
  match_offers(now_us);
}

/// Answers with bytes of no meaning, by whose time the node measures its link. An answer that is
/// not read takes memory, so a connection has but a few.
void ModelFiles::probe(const Question& question) {
  const std::int64_t bytes = question.integer("bytes");
  if (bytes < 0 || bytes > kProbeBytesMax) {
    return refuse(
        question.peer, question.tag, Errc::kUsage,
        "node.probe: bytes: expected a number from 0 to " + std::to_string(kProbeBytesMax));
  }
  int& probes = probes_[question.peer];
  if (probes == kProbesMax) {
    return refuse(question.peer, question.tag, Errc::kRateLimited,
                  "node.probe: a connection has " + std::to_string(kProbesMax) + " of them");
  }
  ++probes;
  options_.send(
      question.peer,
      wire::OpResult{
          question.tag, true, {}, "{}", std::string(static_cast<std::size_t>(bytes), '\0')});
}

/// Looks whether this machine has the model, if that is not settled.
ModelFiles::Local& ModelFiles::look_at_local(const Question& question) {
  const core::ModelRow& row = question.model->row;
  Local& local = locals_[row.sha];
  const bool fresh = local.looked_us != 0 && local.model.path == row.path;
  const bool again = !local.here && question.now_us - local.looked_us > kLookAgainUs;
  if (local.in_work || (fresh && !again)) return local;
  local.in_work = true;
  local.here = false;
  local.looked_us = question.now_us;
  local.model = {row.sha, row.path, {row.size, row.mtime_ns, question.model->identity}};
  reads_.make_list(local.model);
  return local;
}

void ModelFiles::answer_not_ready(const Question& question, const std::string& list_source,
                                  std::int64_t hashed_bytes) {
  const json document = {
      {"ready", false}, {"list_source", list_source}, {"hashed_bytes", hashed_bytes}};
  options_.send(question.peer, wire::OpResult{question.tag, true, {}, document.dump(), {}});
}

void ModelFiles::answer_list(const Question& question, const model_index::ChunkList& list,
                             bool verified, const std::string& list_source,
                             const std::vector<std::string>& sources) {
  model_index::ChunkListText text = model_index::to_text(list);
  const json document = {{"ready", true},
                         {"verified", verified},
                         {"list_source", list_source},
                         {"sources", sources},
                         {"range_bytes", options_.range_bytes_max},
                         {"list", try_parse_json<json>(text.document)}};
  options_.send(question.peer,
                wire::OpResult{question.tag, true, {}, document.dump(), std::move(text.hashes)});
}

void ModelFiles::chunks(const Question& question) {
  const Local& local = look_at_local(question);
  const std::string& sha = question.model->row.sha;
  std::vector<std::string> sources = nodes_with(question.machine, sha, question.node);
  if (local.list && (local.here || !sources.empty())) {
    if (local.here) sources.insert(sources.begin(), std::string());
    return answer_list(question, *local.list, true, {}, sources);
  }
  if (local.in_work) return answer_not_ready(question, {}, reads_.hashed_bytes());
  chunks_of_nodes(question, sources);
}

/// Asks a node for its list, unless it makes one. False: it has failed a moment ago.
bool ModelFiles::ask_for_list(const Question& question, const std::string& source) {
  const std::string& sha = question.model->row.sha;
  Remote& remote = remotes_[{sha, source}];
  if (remote.in_work) return true;
  const bool again = question.now_us - remote.looked_us > kLookAgainUs;
  if (remote.looked_us != 0 && !again) return false;
  remote.in_work = true;
  remote.looked_us = question.now_us;
  RelayJob job;
  job.id = ++last_id_;
  job.node = source;
  job.kind = RelayJob::Kind::kList;
  job.sha = sha;
  job.deadline_us = question.now_us + kListUs;
  relay_.add(std::move(job));
  return true;
}

/// Answers with a list that a node has made, for a model that is not on this machine any more.
void ModelFiles::chunks_of_nodes(const Question& question,
                                 const std::vector<std::string>& sources) {
  const auto avoided = question.args.value("not_from", json::array());
  for (const std::string& source : sources) {
    if (std::find(avoided.begin(), avoided.end(), source) != avoided.end()) continue;
    const Remote& remote = remotes_[{question.model->row.sha, source}];
    if (remote.list) return answer_list(question, *remote.list, false, source, sources);
    if (ask_for_list(question, source)) return answer_not_ready(question, source, 0);
  }
  refuse(question.peer, question.tag, Errc::kNotFound,
         "node.chunks: model " + question.model->row.name + " (" + question.model->row.path +
             ") is not on the daemon's machine, and no connected node gives it");
}

const model_index::ChunkList* ModelFiles::list_of(const std::string& sha) const {
  const auto local = locals_.find(sha);
  if (local != locals_.end() && local->second.list) return &*local->second.list;
  const auto remote = std::find_if(remotes_.begin(), remotes_.end(), [&](const auto& entry) {
    return entry.first.first == sha && entry.second.list;
  });
  return remote == remotes_.end() ? nullptr : &*remote->second.list;
}

/// Why a range is none of the model's; empty: it is one.
std::string ModelFiles::wrong_range(const Question& question) const {
  const model_index::ChunkList* list = list_of(question.model->row.sha);
  if (list == nullptr) return "ask for its chunks (node.chunks) first";
  const std::int64_t file = question.integer("file");
  if (file < 0 || file >= static_cast<std::int64_t>(list->files.size())) return "no such file";
  const std::int64_t whole = list->files[static_cast<std::size_t>(file)].bytes;
  const std::int64_t offset = question.integer("offset");
  const std::int64_t bytes = question.integer("bytes");
  if (offset < 0 || offset >= whole || bytes <= 0 || bytes > whole - offset) {
    return "the file has " + std::to_string(whole) + " bytes";
  }
  if (bytes <= options_.range_bytes_max) return {};
  return "at most " + std::to_string(options_.range_bytes_max) + " bytes at a time";
}

/// Takes space for one more answer to a peer, whose receipts make some.
bool ModelFiles::take_space(const Question& question) {
  Reader& reader = readers_[question.peer];
  const auto receipts = question.args.find("receipts");
  if (receipts != question.args.end() && receipts->is_array() && receipts->size() <= kReceiptsMax) {
    for (const json& receipt : *receipts) {
      if (receipt.is_string()) reader.receipts.erase(receipt.get_ref<const std::string&>());
    }
  }
  std::erase_if(reader.receipts,
                [&](const auto& entry) { return question.now_us - entry.second > kReceiptUs; });
  if (reader.pending + reader.receipts.size() >= kRangesOfPeerMax) return false;
  if (pending_.size() >= kRangesMax) return false;
  ++reader.pending;
  return true;
}

void ModelFiles::range(const Question& question) {
  const auto no = [&](Errc code, const std::string& why) {
    refuse(question.peer, question.tag, code,
           "node.range of model " + question.model->row.name + ": " + why);
  };
  if (const std::string why = wrong_range(question); !why.empty()) {
    return no(Errc::kInvalidRequest, why);
  }
  const std::string& sha = question.model->row.sha;
  const std::string source = question.text("source");
  const auto nodes = nodes_with(question.machine, sha, question.node);
  const auto local = locals_.find(sha);
  const bool here = local != locals_.end() && local->second.here;
  const bool found =
      source.empty() ? here : std::find(nodes.begin(), nodes.end(), source) != nodes.end();
  if (!found) return no(Errc::kNotFound, "the source does not have it now");
  if (!take_space(question)) return no(Errc::kRateLimited, "too many ranges are under way");
  const std::uint64_t id = ++last_id_;
  const std::int64_t bytes = question.integer("bytes");
  pending_[id] = {question.peer, question.tag, source, bytes, sha};
  if (source.empty()) {
    return reads_.read(
        {id, local->second.model, question.integer("file"), question.integer("offset"), bytes});
  }
  RelayJob job;
  job.id = id;
  job.node = source;
  job.sha = sha;
  job.file = question.integer("file");
  job.offset = question.integer("offset");
  job.bytes = bytes;
  job.deadline_us = question.now_us + kRangeUs;
  relay_.add(std::move(job));
}

/// Sends a range to the peer that waits for it, with a receipt.
void ModelFiles::end_range(std::uint64_t id, Result<std::string> content, std::int64_t now_us) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  Reader& reader = readers_[pending.peer];
  if (reader.pending > 0) --reader.pending;
  if (!content)
    return refuse(pending.peer, pending.tag, content.error().code, content.error().what);
  const std::string receipt = new_receipt();
  reader.receipts[receipt] = now_us;
  options_.send(
      pending.peer,
      wire::OpResult{
          pending.tag, true, {}, json{{"receipt", receipt}}.dump(), std::move(content).value()});
}

void ModelFiles::take_remote_list(const RelayJob& job, const Question& question,
                                  const std::string& hashes) {
  Remote& remote = remotes_[{job.sha, job.node}];
  remote.in_work = false;
  remote.looked_us = question.now_us;
  auto list = model_index::parse_chunk_list(question.text("list"), hashes);
  if (list && list->sha == job.sha) remote.list = std::move(list).value();
}

/// Takes what a node was asked for; the verb is an offer too.
void ModelFiles::supply(const Question& question, const wire::Op& op) {
  const auto id = static_cast<std::uint64_t>(question.integer("job"));
  const auto job = relay_.take(id, question.node);
  if (job && job->kind == RelayJob::Kind::kList) {
    take_remote_list(*job, question, op.bytes);
  } else if (job) {
    const std::string error = question.text("error");
    const bool whole = error.empty() && static_cast<std::int64_t>(op.bytes.size()) == job->bytes;
    if (whole) {
      end_range(id, op.bytes, question.now_us);
    } else {
      fail_job(*job, error.empty() ? "it gave another number of bytes" : error, question.now_us);
    }
  }
  relay_.offer(question.peer, question.tag, question.node, question.now_us);
}

void ModelFiles::fail_job(const RelayJob& job, const std::string& why, std::int64_t now_us) {
  if (job.kind == RelayJob::Kind::kList) {
    Remote& remote = remotes_[{job.sha, job.node}];
    remote.in_work = false;
    remote.looked_us = now_us;
    return;
  }
  end_range(job.id, Error{Errc::kUnreachable, "node " + job.node + ": " + why}, now_us);
}

void ModelFiles::match_offers(std::int64_t now_us) {
  for (OfferAnswer& answer : relay_.match(now_us)) {
    options_.send(answer.peer,
                  wire::OpResult{answer.tag, true, {}, std::move(answer.document), {}});
  }
}

void ModelFiles::deliver(std::int64_t now_us) {
  for (ListAnswer& answer : reads_.take_lists()) {
    Local& local = locals_[answer.sha];
    local.in_work = false;
    local.here = answer.here;
    local.looked_us = now_us;
    local.model.stamp = answer.stamp;
    if (answer.list) local.list = std::move(answer.list).value();
  }
  for (RangeAnswer& answer : reads_.take_ranges()) {
    const auto pending = pending_.find(answer.id);
    const bool gone = !answer.content && pending != pending_.end();
    if (gone) locals_[pending->second.sha].here = false;  // looked at again when somebody asks
    end_range(answer.id, std::move(answer.content), now_us);
  }
  for (const RelayJob& job : relay_.take_late(now_us))
    fail_job(job, "it gave nothing in time", now_us);
  match_offers(now_us);
}

void ModelFiles::peer_gone(core::PeerId peer) {
  probes_.erase(peer);
  for (const RelayJob& job : relay_.peer_gone(peer)) fail_job(job, "its connection ended", 0);
  std::erase_if(pending_, [&](const auto& entry) {
    if (entry.second.peer != peer) return false;
    relay_.drop(entry.first);
    return true;
  });
  readers_.erase(peer);
}

}  // namespace holdfast::daemon
