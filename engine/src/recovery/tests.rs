//! Tests of recovery.
