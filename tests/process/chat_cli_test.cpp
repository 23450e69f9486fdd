// Goal: a chat outlives whatever dies in the middle of an answer, and its transcript is then the
// undisturbed one; its commands do what they say, for people and for scripts. Method: the program
// itself, on a pipe and on a pseudo-terminal, with the fake engine, slow enough to be met in the
// middle, and with the demo model.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "ops/chat/conversation.h"
#include "ops/chat/line_reader.h"
#include "tests/process/terminal_program.h"
#include "tests/process/test_server.h"

namespace holdfast::process::chat_cli_test {
namespace {

using nlohmann::json;

constexpr const char* kTemplate =
    "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{%- if add_generation_prompt %}assistant:{% endif %}";
constexpr const char* kThinkingTemplate =
    "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{%- if add_generation_prompt %}assistant: <think>\n{% endif %}";

/// A server with the demo model in a folder, which has a chat template.
class Chat : public testing::Test {
 protected:
  void start(const std::string& chat_template, std::vector<std::string> flags) {
    ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
    dir.write("model/chat_template.jinja", chat_template);
    flags.insert(flags.end(), {"--model", "m=" + folder, "--threads", "1"});
    ASSERT_TRUE(server.start(flags)) << server.errors();
  }
  /// Tokens take `step_us` each.
  void start_fake(int step_us) {
    const json options = {{"tokenizer", demo_model()}, {"step_us", step_us}};
    start(kTemplate, {"--engine", "fake", "--engine-options", options.dump()});
  }

  /// Runs the chat with these lines on its stdin.
  Ended chat(const std::string& lines, const std::string& flags) const {
    const std::string input = dir.write("input", lines);
    return run_program({"/bin/bash", "--norc", "-c",
                        "'" HOLDFAST_BIN_DIR "/holdfast' --state '" + server.state() + "' " +
                            flags + " < '" + input + "'"});
  }
  std::vector<std::string> on_terminal(const std::string& session, int tokens) const {
    return {"holdfast",
            "--state",
            server.state(),
            "chat",
            "m",
            "--session",
            session,
            "--seed",
            "7",
            "--max-tokens",
            std::to_string(tokens)};
  }
  json stored_chat(const std::string& name) const {
    return json::parse(server.cli({"--json", "chats", "show", name}).out, nullptr, false);
  }
  /// The turns of a chat without the ids of their requests.
  json turns(const std::string& name) const {
    json out = stored_chat(name)["turns"];
    for (json& turn : out) turn.erase("request");
    return out;
  }
  std::int64_t running() const {
    return json::parse(server.cli({"--json", "queue", "stats"}).out)["running_choices"];
  }

  const TempDir dir;
  const std::string folder = dir.path() + "/model";
  TestServer server{dir.path() + "/state"};
};

std::vector<json> documents(const std::string& out) {
  std::vector<json> list;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    list.push_back(json::parse(line, nullptr, false));
  }
  return list;
}

constexpr const char* kFlags = " --seed 7 --max-tokens 60 ";

TEST_F(Chat, ChatCli_WithLinesOnStdin_AnswersEachFromTheWholeHistory) {
  start_fake(0);
  const Ended first =
      chat("What is it?\nAnd\\\nwhy?\n", std::string("--json chat m --session a") + kFlags);
  ASSERT_EQ(first.code, 0) << first.err << server.errors();
  const auto answers = documents(first.out);
  ASSERT_EQ(answers.size(), 2U) << first.out;
  EXPECT_EQ(answers[0]["turn"], 1);
  EXPECT_EQ(answers[1]["question"], "And\nwhy?");
  EXPECT_EQ(answers[1]["seed"], 8);
  EXPECT_EQ(answers[0]["tokens"], 60);
  EXPECT_EQ(answers[0]["finish"], "length");
  // The second prompt has the first turn in it.
  EXPECT_GT(answers[1]["prompt_tokens"], answers[0]["prompt_tokens"].get<int>() + 50);

  const Ended later = chat("Third\n", "chat m --session a");
  ASSERT_EQ(later.code, 0) << later.err;
  const json turns_now = turns("a");
  ASSERT_EQ(turns_now.size(), 3U);
  EXPECT_EQ(turns_now[2]["answer"].get<std::string>() + "\n", later.out);
  EXPECT_EQ(stored_chat("a")["settings"]["seed"],
            json({"7"}));  // flags hold until others are given

  const Ended plain =
      chat("What is it?\nAnd\\\nwhy?\nThird\n", std::string("chat m --session b") + kFlags);
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(turns("b"), turns_now);
  EXPECT_EQ(plain.out, answers[0]["answer"].get<std::string>() + "\n\n" +
                           answers[1]["answer"].get<std::string>() + "\n\n" + later.out);
  EXPECT_NE(plain.err.find("cut off after 60 tokens"), std::string::npos) << plain.err;
}

TEST_F(Chat, ChatCli_WithCommands_ChangesTheHistoryAsTheySay) {
  start_fake(0);
  const std::string file = dir.path() + "/saved.md";
  const std::string flags = std::string("chat m --session a --system 'Be kind.'") + kFlags;
  const Ended ended = chat("One\nTwo\n/undo\n/retry\n/system Be brief.\n/save " + file +
                               "\n\"\"\"/no command,\ntwo lines\"\"\"\n/help\n/exit\nnever sent\n",
                           flags);
  ASSERT_EQ(ended.code, 0) << ended.err << server.errors();
  EXPECT_NE(ended.err.find("taken back: Two"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("/system"), std::string::npos);
  const json document = stored_chat("a");
  EXPECT_EQ(document["system"], "Be brief.");
  ASSERT_EQ(document["turns"].size(), 2U) << document;
  EXPECT_EQ(document["turns"][0]["question"], "One");
  EXPECT_EQ(document["turns"][0]["turn"], 3);  // 1 was retried, 2 undone
  EXPECT_EQ(document["turns"][1]["question"], "/no command,\ntwo lines");
  const std::string saved = read_file(file);
  EXPECT_NE(saved.find("**system**\n\nBe brief.\n"), std::string::npos) << saved;
  EXPECT_NE(saved.find(document["turns"][0]["answer"].get<std::string>()), std::string::npos);
  // A retry has another seed, and so another answer.
  EXPECT_NE(document["turns"][0]["answer"].get<std::string>() + "\n",
            ended.out.substr(0, document["turns"][0]["answer"].get<std::string>().size() + 1));

  const Ended again = chat("/save " + file + "\n", "chat m --session a");
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("File exists"), std::string::npos) << again.err;
  EXPECT_EQ(chat("/nonsense\n", "chat m --session a").code, 2);
  EXPECT_EQ(chat("/undo\n/undo\n/undo\n", "chat m --session a").code, 2);
  EXPECT_EQ(stored_chat("a")["turns"].size(), 0U);
}

TEST_F(Chat, ChatCli_WhenItIsKilledInTheMiddleOfAnAnswer_EndsItAtTheNextOpening) {
  start_fake(10'000);
  const Ended quiet = chat("One\nTwo\n", "chat m --session quiet --seed 7 --max-tokens 150");
  ASSERT_EQ(quiet.code, 0) << quiet.err << server.errors();
  const json expected = turns("quiet");
  {
    TerminalProgram terminal(on_terminal("killed", 150));
    ASSERT_TRUE(terminal.shows("> ")) << terminal.screen();
    terminal.type("One\n");
    ASSERT_TRUE(terminal.shows(expected[0]["answer"].get<std::string>().substr(0, 5)))
        << terminal.screen();
    terminal.kill_now();
  }
  EXPECT_EQ(stored_chat("killed")["state"], "answering");
  EXPECT_EQ(turns("killed")[0]["finish"], "under_way");
  EXPECT_NE(server.cli({"chats", "list"}).out.find("answering"), std::string::npos);
  const Ended ended = chat("Two\n", "chat m --session killed");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(turns("killed"), expected);
  EXPECT_EQ(ended.out, quiet.out);
  EXPECT_NE(ended.err.find("was under way"), std::string::npos) << ended.err;
  const json requests = json::parse(server.cli({"--json", "requests", "list"}).out)["requests"];
  EXPECT_EQ(requests.size(), 4U);  // none was made twice
}

TEST_F(Chat, ChatCli_WhenDaemonAndWorkerAreKilled_HasTheUndisturbedTranscript) {
  start_fake(12'000);
  const std::string lines = "One\nTwo\nThree\nFour\n";
  const std::string flags = " --seed 7 --max-tokens 90";
  ASSERT_EQ(chat(lines, "chat m --session quiet" + flags).code, 0) << server.errors();
  Ended ended;
  std::atomic<bool> done{false};
  std::thread talks([&] {
    ended = chat(lines, "chat m --session killed" + flags);
    done = true;
  });
  int kills = 0;
  for (; !done && kills < 5; ++kills) {
    for (int i = 0; i < 400 && !done && running() == 0; ++i) usleep(5'000);
    usleep(200'000);
    if (!done) {
      EXPECT_TRUE(server.kill_child(kills % 2 == 0 ? "daemon" : "worker-0"));
    }
  }
  talks.join();
  EXPECT_GE(kills, 3);
  ASSERT_EQ(ended.code, 0) << ended.err << server.errors();
  EXPECT_EQ(turns("killed"), turns("quiet"));
}

TEST_F(Chat, ChatCli_WithARealModelThatThinks_HasItsTranscriptThroughKills) {
  start(kThinkingTemplate, {});
  const std::string flags = " --seed 7 --temperature 0.8 --max-tokens 200 --ignore-eos";
  const Ended quiet = chat("To be?\nOr not?\n", "--json chat m --session quiet" + flags);
  ASSERT_EQ(quiet.code, 0) << quiet.err << server.errors();
  ASSERT_EQ(documents(quiet.out).size(), 2U) << quiet.out;
  EXPECT_FALSE(documents(quiet.out)[0].value("thinking", "").empty()) << quiet.out;
  Ended ended;
  std::atomic<bool> done{false};
  std::thread talks([&] {
    ended = chat("To be?\nOr not?\n", "--json chat m --session killed" + flags);
    done = true;
  });
  for (int kills = 0; !done && kills < 3; ++kills) {
    for (int i = 0; i < 400 && !done && running() == 0; ++i) usleep(2'000);
    if (!done) {
      EXPECT_TRUE(server.kill_child(kills % 2 == 0 ? "worker-0" : "daemon"));
    }
  }
  talks.join();
  ASSERT_EQ(ended.code, 0) << ended.err << server.errors();
  EXPECT_EQ(turns("killed"), turns("quiet"));
}

TEST_F(Chat, ChatCli_OnATerminal_StopsAtCtrlCAndLeavesAtTheNext) {
  start_fake(20'000);
  TerminalProgram terminal(on_terminal("t", 400));
  ASSERT_TRUE(terminal.shows("new; /help")) << terminal.screen();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type(
      "Onf\x7f"
      "e\n");  // edited before it is sent
  while (running() == 0) usleep(5'000);
  usleep(500'000);
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("stopped; what came stays")) << terminal.screen();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("\x1b[A");  // the line before
  ASSERT_TRUE(terminal.shows("One")) << terminal.screen();
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0) << terminal.screen();
  const json turn = turns("t")[0];
  EXPECT_EQ(turn["question"], "One");
  EXPECT_EQ(turn["finish"], "cancelled");
  EXPECT_FALSE(turn["answer"].get<std::string>().empty());

  TerminalProgram again(on_terminal("t", 2));
  ASSERT_TRUE(again.shows("1 turn;")) << again.screen();
  ASSERT_TRUE(again.shows("> One"));
  ASSERT_TRUE(again.shows("> "));
  again.type("Gr\xc3\xbc\xc3\x9f Gott\n");
  ASSERT_TRUE(again.shows("cut off after 2 tokens")) << again.screen();
  again.type("\x04");
  EXPECT_EQ(again.wait(), 0);
  EXPECT_EQ(turns("t")[1]["question"], "Gr\xc3\xbc\xc3\x9f Gott");
}

TEST_F(Chat, ChatCli_WithSigterm_LeavesAndTheAnswerGoesOn) {
  start_fake(10'000);
  TerminalProgram terminal(on_terminal("t", 100));
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("One\n");
  while (running() == 0) usleep(5'000);
  usleep(100'000);
  terminal.send(SIGTERM);
  EXPECT_EQ(terminal.wait(), 128 + SIGTERM) << terminal.screen();
  EXPECT_NE(terminal.screen().find("holdfast chat m --session t"), std::string::npos);
  EXPECT_EQ(turns("t")[0]["finish"], "under_way");
  const Ended ended = chat("", "chat m --session t");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(turns("t")[0]["finish"], "length");
  EXPECT_EQ(ended.out, turns("t")[0]["answer"].get<std::string>() + "\n");
}

TEST_F(Chat, ChatCli_WithWhatCannotBe_SaysSoWithItsCode) {
  start_fake(0);
  const Ended unknown = chat("x\n", "chat n");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_NE(unknown.err.find("no model n"), std::string::npos) << unknown.err;
  ASSERT_EQ(server.cli({"models", "add", "mistral-7b", folder}).code, 0);
  const Ended near = chat("x\n", "chat mistral");
  EXPECT_EQ(near.code, 3);
  EXPECT_NE(near.err.find("did you mean mistral-7b?"), std::string::npos) << near.err;
  const std::string bare = dir.path() + "/bare";
  ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), bare}).code, 0);
  std::filesystem::remove(bare + "/chat_template.jinja");
  json config = json::parse(read_file(bare + "/tokenizer_config.json"));
  config.erase("chat_template");
  dir.write("bare/tokenizer_config.json", config.dump());
  ASSERT_EQ(server.cli({"models", "add", "raw", bare}).code, 0);
  const Ended raw = chat("x\n", "chat raw");
  EXPECT_EQ(raw.code, 4);
  EXPECT_NE(raw.err.find("no_chat_template"), std::string::npos) << raw.err;
  EXPECT_EQ(chat("x\n", "chat m --session 'a b'").code, 2);
  EXPECT_EQ(chat("x\n", "chat m --top-p 3").code, 4);
  EXPECT_EQ(chat("x\n", "chat m --device cpu").code, 2);
  EXPECT_EQ(server.cli({"chats", "show", "none"}).code, 3);
  EXPECT_EQ(server.cli({"chats", "remove", "none"}).code, 3);
  EXPECT_EQ(json::parse(server.cli({"--json", "chats", "list"}).out)["chats"].size(), 0U);

  std::string words;
  for (int i = 0; i < 2'000; ++i) words += "word ";
  const Ended full = chat("One\n" + words + "\n", "chat m --session a --max-tokens 5");
  EXPECT_EQ(full.code, 4) << full.err;
  EXPECT_NE(full.err.find("--new starts another chat"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("[context_exceeded]"), std::string::npos) << full.err;
  EXPECT_EQ(turns("a").size(), 1U);  // the question was taken back
  EXPECT_EQ(chat("x\n", "chat m --session a --new").code, 4);
}

TEST_F(Chat, ChatCli_WithoutASession_GoesOnWithTheLastOfTheModel) {
  start_fake(0);
  const std::string flags = "chat m --max-tokens 3";
  ASSERT_EQ(server.cli({"models", "unload", "m"}).code, 0);
  ASSERT_EQ(chat("One\n", flags).code, 0) << server.errors();  // it is loaded
  ASSERT_EQ(chat("Two\n", flags + " --new").code, 0);
  ASSERT_EQ(chat("Three\n", flags).code, 0);
  EXPECT_EQ(turns("m").size(), 1U);
  EXPECT_EQ(turns("m-2").size(), 2U);
  ASSERT_EQ(chat("", flags + " --new").code, 0);
  const json chats = json::parse(server.cli({"--json", "chats", "list"}).out)["chats"];
  ASSERT_EQ(chats.size(), 2U) << chats;  // one without a question is not there
  EXPECT_EQ(chats[0]["name"], "m-2");
  EXPECT_EQ(chats[0]["last"], "Three");
  const Ended removed = server.cli({"chats", "remove", "m-2"});
  EXPECT_EQ(removed.out, "m-2: removed\n");
  ASSERT_EQ(chat("Four\n", flags).code, 0);
  EXPECT_EQ(turns("m").size(), 2U);
}

TEST_F(Chat, ChatCli_WhenTwoProgramsHaveTheChat_TheSecondIsTold) {
  start_fake(0);
  TerminalProgram terminal(on_terminal("t", 3));
  ASSERT_TRUE(terminal.shows("> "));
  ASSERT_EQ(chat("One\n", "chat m --session t --max-tokens 3").code, 0);
  terminal.type("Two\n");
  ASSERT_TRUE(terminal.shows("another program has changed it")) << terminal.screen();
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_EQ(turns("t").size(), 1U);
}

TEST_F(Chat, Run_WithoutAPrompt_ReadsStdinOrOpensAChat) {
  start_fake(0);
  const Ended piped = chat("One\n", "--json run m --max-tokens 3");
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(json::parse(piped.out)["choices"][0]["ids"].size(), 3U);
  TerminalProgram terminal(
      {"holdfast", "--state", server.state(), "run", "m", "--max-tokens", "3"});
  ASSERT_TRUE(terminal.shows("> ")) << terminal.screen();
  terminal.type("One\n");
  ASSERT_TRUE(terminal.shows("cut off after 3 tokens")) << terminal.screen();
  terminal.type("/bye\n");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_EQ(turns("m").size(), 1U);
}

TEST(RunFile, RunFile_WithoutADaemon_ServesItOnTheDevice) {
  const TempDir dir;
  const std::string state = dir.path() + "/none";
  const Ended good = run_program({"holdfast", "--state", state, "--json", "run", demo_model(), "x",
                                  "--max-tokens", "2", "--device", "cpu"});
  ASSERT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(json::parse(good.out)["choices"][0]["ids"].size(), 2U);
  const Ended bad = run_program({"holdfast", "--state", state, "run", demo_model(), "x",
                                 "--max-tokens", "2", "--device", "nonsense"});
  EXPECT_NE(bad.code, 0);
  EXPECT_NE(bad.err.find("nonsense"), std::string::npos) << bad.err;
}

TEST(Conversation, Conversation_WithAJournal_IsWhatItsLinesSay) {
  cli::ChatTurn turn;
  turn.number = 1;
  turn.text = "One";
  turn.model = "m";
  cli::Conversation chat;
  ASSERT_TRUE(chat.take(cli::system_line("Be kind.") + cli::question_line(turn)));
  ASSERT_NE(chat.under_way(), nullptr);
  EXPECT_EQ(json::parse(chat.messages())["messages"].size(), 2U);
  EXPECT_FALSE(chat.take(cli::question_line(turn)));  // before the first has its answer
  turn.answer = "1";
  turn.finish = "stop";
  ASSERT_TRUE(chat.take(cli::answer_line(turn)));
  EXPECT_EQ(chat.under_way(), nullptr);
  EXPECT_FALSE(chat.take(cli::answer_line(turn)));
  EXPECT_FALSE(chat.take(cli::question_line(turn)));  // its number was used
  EXPECT_FALSE(chat.take(cli::drop_line(2, "undo")));
  turn.number = 2;
  turn.text = "Two";
  ASSERT_TRUE(chat.take(cli::question_line(turn) + cli::drop_line(2, "queue_full")));
  EXPECT_EQ(chat.refused_text(), "Two");
  EXPECT_EQ(chat.next_number(), 3);
  ASSERT_TRUE(chat.take(cli::drop_line(1, "undo")));
  EXPECT_EQ(chat.refused_text(), "");
  EXPECT_TRUE(chat.turns().empty());
}

TEST(Conversation, Conversation_WithALineThatIsNone_IsRefusedAtIt) {
  for (const std::string bad : {"x\n", "[]\n", "{\"kind\":\"other\"}\n", "{\"kind\":\"system\"}",
                                "{\"kind\":\"answer\",\"turn\":1,\"finish\":\"stop\"}\n", "\n"}) {
    cli::Conversation chat;
    const auto taken = chat.take(cli::system_line("s") + bad);
    ASSERT_FALSE(taken) << bad;
    EXPECT_EQ(taken.error().code, Errc::kCorrupt);
    EXPECT_NE(taken.error().what.find("line 2"), std::string::npos) << taken.error().what;
    EXPECT_EQ(chat.system(), "s");
  }
}

/// Lines of a test; their end is the end of the input.
class Lines final : public cli::LineReader {
 public:
  explicit Lines(std::deque<std::string> lines) : lines_(std::move(lines)) {}
  cli::Line read(const std::string&) override {
    if (lines_.empty()) return {};
    cli::Line line{cli::Line::Kind::kText, lines_.front()};
    lines_.pop_front();
    return line;
  }

 private:
  std::deque<std::string> lines_;
};

TEST(Message, Message_OfSeveralLines_IsJoined) {
  const auto read = [](std::deque<std::string> lines) {
    Lines reader(std::move(lines));
    const cli::Message message = cli::read_message(reader);
    return message.kind == cli::Line::Kind::kText ? message.text : "(end)";
  };
  EXPECT_EQ(read({}), "(end)");
  EXPECT_EQ(read({"one", "two"}), "one");
  EXPECT_EQ(read({"one\\", "two\\", "three", "four"}), "one\ntwo\nthree");
  EXPECT_EQ(read({"one\\"}), "one\n");
  EXPECT_EQ(read({"\"\"\"one\"\"\"", "two"}), "one");
  EXPECT_EQ(read({"\"\"\"", "one\\", "", "two", "\"\"\"", "three"}), "one\\\n\ntwo");
  EXPECT_EQ(read({"\"\"\"one", "two"}), "one\ntwo");  // the input ends first
  EXPECT_EQ(read({"\"\"\""}), "(end)");
}

}  // namespace
}  // namespace holdfast::process::chat_cli_test
