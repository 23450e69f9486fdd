#include "control/ingress/inspect.h"

#include "control/ingress/chat.h"
#include "shared/chat/output_parser.h"
#include "shared/gguf/gguf.h"
#include "shared/huggingface/folder.h"
#include "shared/huggingface/stamp.h"
#include "shared/jinja/chat_template.h"
#include "shared/plan/plan.h"
#include "shared/profile/profile.h"
#include "shared/text/tokenizer.h"

namespace holdfast::ingress {
namespace {

/// A chat just long enough for a template to show how an answer begins. `kwargs`: a JSON object,
/// the values of the template's variables.
std::string short_chat(const text::Tokenizer& tokenizer, const profile::Profile& profile,
                       const std::string& kwargs) {
  const auto prompt = render_chat(R"({"messages":[{"role":"user","content":"Hi"}],)"
                                  R"("add_generation_prompt":true,"chat_template_kwargs":)" +
                                      kwargs + "}",
                                  tokenizer, "2026-01-15", profile);
  return prompt ? prompt->text : std::string();
}

chat::OpeningPrompts opening_prompts(const text::Tokenizer& tokenizer,
                                     const profile::Profile& profile) {
  return {short_chat(tokenizer, profile, "{}"),
          short_chat(tokenizer, profile, R"({"enable_thinking":true,"thinking":true})"),
          short_chat(tokenizer, profile, R"({"enable_thinking":false,"thinking":false})")};
}

Result<wire::Inspected> read_all(const std::string& path) {
  wire::Inspected out;
  HOLDFAST_TRY(const huggingface::Stamp before, huggingface::stamp_of(path));
  HOLDFAST_TRY(const auto file, huggingface::open_model(path, huggingface::Contents::kShapes));
  HOLDFAST_TRY(const plan::ModelShape shape, plan::read_shape(*file));
  out.shape = plan::shape_to_json(shape);
  if (shape.has_tokenizer) {
    HOLDFAST_TRY(out.tokenizer, plan::tokenizer_blob(*file));
    HOLDFAST_TRY(const auto blob, gguf::File::from_bytes(out.tokenizer, path));
    HOLDFAST_TRY(const auto tokenizer, text::Tokenizer::load(*blob));
    out.detokenizer = text::encode_detokenizer_table(*tokenizer);
    out.output = chat::describe_output(tokenizer->chat_template(), opening_prompts(*tokenizer, {}));
  }
  HOLDFAST_TRY(out.model_sha, huggingface::sha256_of(path));
  HOLDFAST_TRY(const huggingface::Stamp after, huggingface::stamp_of(path));
  if (before != after) {
    return Error{Errc::kFileInvalid, path + ": changed while it was read; try again"};
  }
  out.size = after.size;
  out.mtime_ns = after.mtime_ns;
  out.identity = after.identity;
  out.ok = true;
  return out;
}

Result<void> describe_with(const profile::Profile& profile, wire::Inspected& out) {
  if (profile.chat_template.empty()) return {};
  if (out.tokenizer.empty()) {
    return Error{Errc::kUnsupported,
                 "profile: template: the model's file holds no tokenizer; leave the template out"};
  }
  HOLDFAST_TRY(const auto blob, gguf::File::from_bytes(out.tokenizer, "tokenizer"));
  HOLDFAST_TRY(const auto tokenizer, text::Tokenizer::load(*blob));
  out.output = chat::describe_output(profile.chat_template, opening_prompts(*tokenizer, profile));
  out.has_template = true;
  return {};
}

}  // namespace

Result<void> check_profile(const std::string& text) {
  HOLDFAST_TRY(const profile::Profile profile, profile::read_profile(text));
  if (profile.chat_template.empty()) return {};
  const auto parsed = text::ChatTemplate::parse(profile.chat_template);
  if (parsed) return {};
  return Error{Errc::kInvalidRequest, "profile: template: " + parsed.error().what};
}

void add_profile(const wire::Inspect& job, wire::Inspected& inspected) {
  if (!inspected.ok || job.profile.empty()) return;
  const auto profile = profile::read_profile(job.profile);
  if (!profile) return;  // unreached: check_profile() has read it
  if (const auto done = describe_with(*profile, inspected); !done) {
    inspected = refused_file(done.error());
    inspected.job = job.job;
  }
}

wire::Inspected refused_file(const Error& error) {
  wire::Inspected refused;
  refused.refusal.code = error.code;
  refused.refusal.message = error.what;
  return refused;
}

wire::Inspected inspect_file(const std::string& path) {
  Result<wire::Inspected> read = read_all(path);
  return read.has_value() ? std::move(read).value() : refused_file(read.error());
}

}  // namespace holdfast::ingress
