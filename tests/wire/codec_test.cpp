// Goal: one side decodes whole what the other encodes; and nothing that a hostile peer can send
// crashes, hangs, throws or takes memory beyond a small multiple of the frame.
// Method: random messages of every type; an independent CBOR library as the oracle of the format;
// truncation at every byte and random mutation (this file is also run with AddressSanitizer).

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "random_message.h"
#include "shared/wire/cbor.h"
#include "shared/wire/frame.h"

namespace holdfast::wire::codec_test {
namespace {

using testing::kTypes;
using testing::Random;
using testing::random_message;

std::string read_source(const std::string& path) {
  std::ifstream in(std::string(HOLDFAST_SOURCE_DIR "/") + path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string frame_of(std::uint16_t type, const std::string& content) {
  std::string frame = "HFST";
  const auto put = [&](std::uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) frame.push_back(static_cast<char>(v >> (8 * i)));
  };
  put(kVersion, 2);
  put(type, 2);
  put(content.size(), 4);
  put(0, 4);
  return frame + content;
}

TEST(Codec, Message_AfterEncodeAndDecode_IsEqual) {
  Random random(1);
  for (std::size_t type = 0; type < kTypes; ++type) {
    for (int i = 0; i < 200; ++i) {
      const Message message = random_message(type, random);
      const std::string frame = encode(message);
      const Result<Message> back = decode(frame);
      ASSERT_TRUE(back.has_value()) << message_name(message) << ": " << back.error().what;
      ASSERT_EQ(back.value().index(), message.index());
      ASSERT_EQ(encode(back.value()), frame) << message_name(message);
    }
  }
}

TEST(Codec, Dispatch_WithExtremeValues_RoundTrips) {
  Dispatch d;
  d.request_id = "req1";
  d.fence = {UINT64_MAX, 1ULL << 63};
  d.prompt_ids = {0, 23, 24, 255, 256, 65535, 65536, INT32_MAX, -1, INT32_MIN};
  d.sampling.temperature = 0.7f;
  d.sampling.seed = 0xfedcba9876543210;
  d.stops = {"\n\n", "é"};
  d.time_left_ms = -1;
  d.state = std::string("\xff\x00\x80", 3);
  const Result<Message> back = decode(encode(d));
  ASSERT_TRUE(back.has_value());
  const auto& got = std::get<Dispatch>(back.value());
  EXPECT_EQ(got.request_id, d.request_id);
  EXPECT_EQ(got.fence, d.fence);
  EXPECT_EQ(got.prompt_ids, d.prompt_ids);
  EXPECT_EQ(got.sampling.temperature, 0.7f);
  EXPECT_EQ(got.sampling.seed, d.sampling.seed);
  EXPECT_EQ(got.stops, d.stops);
  EXPECT_EQ(got.time_left_ms, -1);
  EXPECT_EQ(got.state, d.state);
}

TEST(Codec, Submit_WhenEncodedAlone_HasTheBytesOfTheMessage) {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    const Message message = random_message(0, random);
    const auto& submit = std::get<Submit>(message);
    ASSERT_EQ(encode(submit), encode(message));
  }
  Submit submit;  // each of the three ways to give a prompt at least once, and none
  submit.prompts.resize(4);
  submit.prompts[0].text = "once";
  submit.prompts[1].ids = {1, 2, 70'000};
  submit.prompts[2].messages_json = "{}";
  const Result<Message> back = decode(encode(submit));
  ASSERT_TRUE(back.has_value()) << back.error().what;
  const auto& got = std::get<Submit>(back.value()).prompts;
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[0].text, "once");
  EXPECT_EQ(got[1].ids, (std::vector<TokenId>{1, 2, 70'000}));
  EXPECT_EQ(got[1].text, std::nullopt);
  EXPECT_EQ(got[2].messages_json, "{}");
  EXPECT_EQ(got[3].ids, std::nullopt);
}

// A check before sending must find what the receiver would refuse.
TEST(Codec, CheckEncodable_WhenReaderWouldRefuse_NamesTheField) {
  Random random(6);
  for (int i = 0; i < 200; ++i) {
    const Message message = random_message(0, random);
    const auto checked = check_encodable(std::get<Submit>(message));
    ASSERT_TRUE(checked.has_value()) << checked.error().what;
  }
  const auto expect_found = [](const Submit& submit, const std::string& field) {
    const auto checked = check_encodable(submit);
    ASSERT_FALSE(checked.has_value()) << field;
    EXPECT_EQ(checked.error().code, Errc::kInvalidRequest);
    EXPECT_EQ(checked.error().what.find("message: " + field + ": "), 0u) << checked.error().what;
    EXPECT_FALSE(decode(encode(submit)).has_value()) << field;
  };
  Submit limits;
  limits.max_tokens = INT64_MIN;
  limits.stops.resize(65'536);
  limits.priority = PriorityClass::kBatch;
  EXPECT_TRUE(check_encodable(limits).has_value());
  EXPECT_TRUE(decode(encode(limits)).has_value());
  Submit wrong = limits;
  wrong.stops.emplace_back();
  expect_found(wrong, "stops");
  wrong = limits;
  wrong.priority = static_cast<PriorityClass>(3);
  expect_found(wrong, "priority");
  wrong = limits;
  wrong.sampling.top_p = HUGE_VALF;
  expect_found(wrong, "top_p");
  wrong.sampling.temperature = NAN;  // of several errors the first is named
  expect_found(wrong, "temperature");
}

TEST(Codec, EnumNames_WithUnknownValues_ReturnUnknown) {
  using enum RequestState;
  const std::pair<RequestState, std::string_view> kStates[] = {
      {kQueued, "queued"},          {kRunning, "running"},     {kSucceeded, "succeeded"},
      {kFailed, "failed"},          {kCancelled, "cancelled"}, {kExpired, "expired"},
      {kQuarantined, "quarantined"}};
  for (const auto& [state, name] : kStates) {
    EXPECT_EQ(state_name(state), name);
    EXPECT_EQ(is_terminal(state), state != kQueued && state != kRunning && state != kQuarantined)
        << name;
  }
  const std::pair<FinishReason, std::string_view> kReasons[] = {
      {FinishReason::kNone, "none"},     {FinishReason::kStop, "stop"},
      {FinishReason::kLength, "length"}, {FinishReason::kCancelled, "cancelled"},
      {FinishReason::kError, "error"},   {FinishReason::kExpired, "expired"}};
  for (const auto& [reason, name] : kReasons) EXPECT_EQ(finish_name(reason), name);
  // Values of a newer program's file or of damaged memory: the text says so, and nothing ends.
  EXPECT_EQ(state_name(static_cast<RequestState>(7)), "unknown");
  EXPECT_FALSE(is_terminal(static_cast<RequestState>(7)));
  EXPECT_EQ(finish_name(static_cast<FinishReason>(6)), "unknown");
  EXPECT_EQ(message_name(Submit{}), "SUBMIT");
  EXPECT_EQ(message_name(StatusReply{}), "STATUS_REPLY");
}

// Members whose name in the frame is an older one.
const std::map<std::string, std::string> kWireNames = {{"last_epoch", "epoch_seen"},
                                                       {"detokenizer", "pieces"}};

// A member that fields.h lacks would be lost without a sign, and no round trip of the codec with
// itself would show it, so the two headers are compared as text.
TEST(Codec, MessageStructs_HaveEveryMemberInFieldsHeader) {
  const std::string messages = read_source("shared/wire/messages.h");
  const std::string fields = read_source("shared/wire/fields.h");
  const std::regex structs(R"(\nstruct (\w+) \{\n([^}]*\n)?\};)");
  const std::regex member(R"(^ +[A-Za-z_:<>0-9]+ (\w+)( = [^;]+)?;)");
  int members = 0;
  for (std::sregex_iterator s(messages.begin(), messages.end(), structs), end; s != end; ++s) {
    const std::string name = (*s)[1];
    const std::size_t from = fields.find("Like<" + name + "> auto& m)");
    ASSERT_NE(from, std::string::npos) << name;
    const std::string body = fields.substr(from, fields.find("\n}", from) - from);
    std::istringstream lines((*s)[2].str());
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      const std::string code = line.substr(0, line.find("//"));
      if (code.find(';') == std::string::npos || code.find("operator") != std::string::npos)
        continue;
      ASSERT_TRUE(std::regex_search(code, match, member)) << line;
      const auto renamed = kWireNames.find(match[1].str());
      const std::string wire = renamed == kWireNames.end() ? match[1].str() : renamed->second;
      EXPECT_NE(body.find("\"" + wire + "\", m." + match[1].str() + ")"), std::string::npos)
          << name << "::" << match[1] << " is missing from fields.h";
      ++members;
    }
  }
  EXPECT_GT(members, 200);
}

TEST(Codec, Frame_WithAnotherCborLibrary_RoundTrips) {
  Random random(2);
  for (std::size_t type = 0; type < kTypes; ++type) {
    for (int i = 0; i < 50; ++i) {
      const std::string frame = encode(random_message(type, random));
      const std::string content = frame.substr(kHeaderBytes);
      const auto json = nlohmann::json::from_cbor(content.begin(), content.end(), true, false);
      ASSERT_TRUE(json.is_object());
      std::vector<std::uint8_t> again = nlohmann::json::to_cbor(json);
      std::string theirs = frame.substr(0, kHeaderBytes);
      theirs.append(again.begin(), again.end());
      for (int b = 0; b < 4; ++b) theirs[8 + b] = static_cast<char>(again.size() >> (8 * b));
      const Result<Message> back = decode(theirs);  // other key order, other float widths
      ASSERT_TRUE(back.has_value()) << back.error().what;
      ASSERT_EQ(encode(back.value()), frame);
    }
  }
}

TEST(Codec, Decode_WithUnknownOrAbsentKeys_UsesDefaults) {
  const auto cbor = nlohmann::json::to_cbor(
      {{"tag", 7}, {"future", {{"a", {1, 2, nullptr, true, 1.5}}, {"b", "x"}}}});
  const Result<Message> back = decode(frame_of(1, std::string(cbor.begin(), cbor.end())));
  ASSERT_TRUE(back.has_value()) << back.error().what;
  EXPECT_EQ(std::get<Submit>(back.value()).tag, 7u);
  EXPECT_EQ(std::get<Submit>(back.value()).n, 1);
}

TEST(Codec, Decode_WithNullValue_TreatsItAsAbsent) {
  const auto cbor = nlohmann::json::to_cbor(
      {{"prompts", {{{"text", nullptr}, {"ids", nullptr}, {"messages_json", "{}"}}}},
       {"max_tokens", nullptr},
       {"n", 2}});
  const Result<Message> back = decode(frame_of(1, std::string(cbor.begin(), cbor.end())));
  ASSERT_TRUE(back.has_value()) << back.error().what;
  const auto& submit = std::get<Submit>(back.value());
  ASSERT_EQ(submit.prompts.size(), 1u);
  EXPECT_EQ(submit.prompts[0].text, std::nullopt);
  EXPECT_EQ(submit.prompts[0].ids, std::nullopt);
  EXPECT_EQ(submit.prompts[0].messages_json, "{}");
  EXPECT_EQ(submit.max_tokens, std::nullopt);
  EXPECT_EQ(submit.n, 2);
}

// Other libraries write a number as a half float where it fits.
TEST(Codec, HalfFloat_WhenRead_HasItsExactValue) {
  const std::pair<std::uint16_t, double> kHalves[] = {
      {0x0000, 0.0},  {0x0001, 0x1p-24},   {0x83ff, -0x3ffp-24}, {0x0400, 0x1p-14}, {0x3c00, 1.0},
      {0xbc00, -1.0}, {0x3555, 0x555p-12}, {0x7bff, 65504.0},    {0xfbff, -65504.0}};
  const auto bytes_of = [](std::uint16_t half) {
    return std::string{'\xf9', static_cast<char>(half >> 8), static_cast<char>(half)};
  };
  for (const auto& [half, value] : kHalves) {
    const std::string bytes = bytes_of(half);
    CborReader reader(bytes);
    double read = NAN;
    EXPECT_TRUE(reader.read_double(read)) << half;
    EXPECT_EQ(read, value) << half;
    EXPECT_EQ(reader.remaining(), 0u);
  }
  for (const std::uint16_t half : {0x7c00, 0xfc00, 0x7e00, 0xfc01}) {
    const std::string bytes = bytes_of(half);
    CborReader reader(bytes);
    double read = 0;
    EXPECT_FALSE(reader.read_double(read)) << half;
    EXPECT_STREQ(reader.error(), "a number that is not finite");
  }
}

// Reads after a failure must not give values from beyond it, nor lose its cause.
TEST(Codec, CborReader_AfterAFailure_RetainsTheFirstError) {
  const std::string bytes = "\x61x\x01\xf6\xf5\x80";
  CborReader reader(bytes);
  std::uint64_t number = 0;
  EXPECT_FALSE(reader.read_uint(number));
  EXPECT_STREQ(reader.error(), "expected an unsigned integer");
  const std::size_t at = reader.offset();
  bool truth = false;
  double real = 0;
  std::int64_t integer = 0;
  std::string_view view;
  EXPECT_FALSE(reader.read_uint(number) || reader.read_int(integer) || reader.read_bool(truth) ||
               reader.read_double(real) || reader.read_blob(view) || reader.read_text(view) ||
               reader.read_key(view) || reader.read_array(number) || reader.read_map(number) ||
               reader.take_null() || reader.skip());
  EXPECT_FALSE(reader.fail("another"));
  EXPECT_STREQ(reader.error(), "expected an unsigned integer");
  EXPECT_EQ(reader.offset(), at);
}

TEST(Codec, TakeNull_WhenNextIsNotNull_ConsumesNothing) {
  CborReader reader("\xf6\xf5");
  EXPECT_TRUE(reader.take_null());
  EXPECT_FALSE(reader.take_null());  // the reader does not move
  bool truth = false;
  EXPECT_TRUE(reader.read_bool(truth));
  EXPECT_TRUE(truth);
  EXPECT_FALSE(reader.take_null());  // the end is no failure
  EXPECT_TRUE(reader.ok());
}

void expect_refused(const std::string& frame, const std::string& part) {
  const Result<Message> back = decode(frame);
  ASSERT_FALSE(back.has_value()) << "expected: " << part;
  EXPECT_EQ(back.error().code, Errc::kInvalidRequest);
  EXPECT_NE(back.error().what.find(part), std::string::npos) << back.error().what;
}

TEST(Codec, FrameHeader_WhenInvalid_NamesTheFault) {
  const std::string good = encode(Ping{1});
  expect_refused("", "frame of 0 bytes");
  expect_refused(good.substr(0, 15), "frame of 15 bytes");
  const auto with = [&](std::size_t at, char value) {
    std::string frame = good;
    frame[at] = value;
    return frame;
  };
  expect_refused(with(0, 'X'), "magic");
  expect_refused(with(4, 2), "version 2; expected 0 or 1");
  expect_refused(with(4, 9), "version 9");
  expect_refused(with(5, 1), "version");
  expect_refused(with(6, 31), "unknown type 31");
  expect_refused(with(8, 77), "77 bytes");
  expect_refused(with(12, 1), "reserved");
  ASSERT_TRUE(decode(with(4, 0)).has_value()) << "version N-1 is understood";
}

TEST(Codec, FrameContent_WhenInvalid_NamesTheFault) {
  const auto submit = [](const nlohmann::json& json) {
    const auto cbor = nlohmann::json::to_cbor(json);
    return frame_of(1, std::string(cbor.begin(), cbor.end()));
  };
  expect_refused(submit({{"tag", -1}}), "unsigned");
  expect_refused(submit({{"tag", "x"}}), "unsigned");
  expect_refused(submit({{"n", 1LL << 40}}), "out of range");
  expect_refused(submit({{"n", -(1LL << 40)}}), "out of range");
  expect_refused(frame_of(8,
                          "\xa1\x64"
                          "ends\x81\x1b" +
                              std::string("\0\0\0\1\0\0\0\0", 8)),
                 "EVENT at byte 32: an integer out of range");
  expect_refused(submit({{"priority", 3}}), "unknown number");
  expect_refused(submit({{"model", 3}}), "text");
  expect_refused(submit({{"model", 1.5}}), "text");
  expect_refused(submit({{"stops", 1}}), "expected an array");
  expect_refused(submit({{"echo", 1}}), "true or false");
  expect_refused(submit({{"prompts", {1}}}), "map");
  expect_refused(submit({{"sampling", {{"temperature", 1e300}}}}), "out of range");
  expect_refused(submit({{"sampling", {{"temperature", -1e300}}}}), "out of range");
  expect_refused(submit({{"sampling", {{"temperature", HUGE_VAL}}}}), "not finite");
  expect_refused(submit(nlohmann::json::array()), "map");
  nlohmann::json deep = 1;
  for (int i = 0; i < 40; ++i) deep = nlohmann::json::array({deep});
  expect_refused(submit({{"future", deep}}), "deeper than 32");
  expect_refused(frame_of(15, "\xa1\x63tag\x01 "), "after the end");
  expect_refused(frame_of(15, "\xa2\x63tag\x01\x63tag\x02"), "twice");
  expect_refused(frame_of(15, "\xbf\x63tag\x01\xff"), "indefinite");
  expect_refused(frame_of(1, "\xa1\x65model\x62\xc3\x28"), "UTF-8");
  expect_refused(frame_of(1, std::string("\xa1\x65stops\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", 16)),
                 "longer than the message");
  expect_refused(frame_of(1, "\xa3\x63tag"), "a map longer than the message");
  // After unknown keys too: a tag, simple values without a meaning, lengths.
  expect_refused(frame_of(15, "\xa1\x61x\xc1\x01"), "a CBOR tag");
  expect_refused(frame_of(15, "\xa1\x61x\xf3"), "an unknown simple value");
  expect_refused(frame_of(15, "\xa1\x61x\xf8\x20"), "an unknown simple value");
  expect_refused(frame_of(15, "\xa1\x61x\x85"), "an array or map longer than the message");
  ASSERT_TRUE(decode(frame_of(15, "\xa1\x61x\xf7")).has_value()) << "undefined is a value";
}

// A frame of one-byte elements must not grow into gigabytes of structs.
TEST(Codec, StructArray_WhenTooLong_IsRefused) {
  std::string content("\xa1\x67prompts\x9a\x00\x02\x00\x00", 14);
  content.append(0x20000, '\xa0');
  expect_refused(frame_of(1, content), "65536");
}

TEST(Codec, Text_WhenNotUtf8_IsRepairedByTheEncoder) {
  const Result<Message> back = decode(encode(Drop{"req", 0, "bad \xff\xfe path \xc3\xa9"}));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(std::get<Drop>(back.value()).reason, "bad ?? path é");
}

TEST(Codec, Frame_WhenTruncatedAtAnyByte_IsRefused) {
  Random random(3);
  for (std::size_t type = 0; type < kTypes; ++type) {
    const std::string frame = encode(random_message(type, random));
    for (std::size_t n = 0; n < frame.size(); ++n) {
      EXPECT_FALSE(decode(frame.substr(0, n)).has_value());
      if (n < kHeaderBytes) continue;
      std::string patched = frame.substr(0, n);  // with a header that agrees
      for (int b = 0; b < 4; ++b) {
        patched[8 + b] = static_cast<char>((n - kHeaderBytes) >> (8 * b));
      }
      EXPECT_FALSE(decode(patched).has_value());
    }
  }
}

TEST(Codec, Frame_WhenRandomlyMutated_IsDecodedOrRefused) {
  Random random(4);
  std::uint64_t accepted = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string frame = encode(random_message(random() % kTypes, random));
    for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
      frame[kHeaderBytes + random() % (frame.size() - kHeaderBytes)] = static_cast<char>(random());
    }
    const Result<Message> back = decode(frame);
    if (!back.has_value()) continue;
    ++accepted;  // then it is a message like any other
    ASSERT_TRUE(decode(encode(back.value())).has_value());
  }
  EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace holdfast::wire::codec_test
