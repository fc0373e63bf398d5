# A template: at a release, VERSION and CHECKSUM are those of the source archive.
class Forerunner < Formula
  desc "Runs LFM2 language models with lossless speculative decoding"
  homepage "https://github.com/forerunner-engine/forerunner"
  url "https://github.com/forerunner-engine/forerunner/archive/refs/tags/vVERSION.tar.gz"
  sha256 "CHECKSUM"
  license "Apache-2.0"
  head "https://github.com/forerunner-engine/forerunner.git", branch: "main"

  depends_on "rust" => :build

  def install
    system "cargo", "install", "--features", "tls,pull", *std_cargo_args(path: "crates/forerunner")
    generate_completions_from_executable(bin/"forerunner", "completions")
    (man1/"forerunner.1").write Utils.safe_popen_read(bin/"forerunner", "man")
    %w[run chat serve check calibrate info pull].each do |command|
      (man1/"forerunner-#{command}.1").write Utils.safe_popen_read(bin/"forerunner", "man", command)
    end
  end

  service do
    run [opt_bin/"forerunner", "serve", "--host", "127.0.0.1", "--port", "8080"]
    keep_alive successful_exit: false
    error_log_path var/"log/forerunner.log"
  end

  test do
    assert_match "84", shell_output("#{bin}/forerunner run 'There are 7 boxes with 12 pears each. How many pears?'")
  end
end
