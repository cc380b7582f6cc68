//! libFuzzer's way into `logd_tests::fuzz`: target `manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (logd_tests::fuzz::target("manifest"))(input));
