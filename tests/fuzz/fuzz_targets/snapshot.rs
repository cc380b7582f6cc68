//! libFuzzer's way into `logd_tests::fuzz`: target `snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (logd_tests::fuzz::target("snapshot"))(input));
