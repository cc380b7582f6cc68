//! The parser of requests: arbitrary bytes, whole and split, give the same requests (KNOWN-FAULTS 49 to 51).
//! Must not know: commands.

use logd::resp::parse::{Parser, Step};

/// What a stream holds: its requests, and how it ended if it makes no sense.
type Seen = (Vec<Vec<Vec<u8>>>, Option<String>);

/// The first byte is the length of the pieces that arrive at a time.
pub fn run(input: &[u8]) {
    let Some((piece, bytes)) = input.split_first() else { return };
    let whole = parse(bytes, bytes.len().max(1));
    let split = parse(bytes, usize::from(*piece).max(1));
    assert_eq!(whole, split, "pieces of {piece} bytes");
}

/// The requests of a stream that arrives in pieces.
pub fn parse(bytes: &[u8], piece: usize) -> Seen {
    let (mut parser, mut input, mut requests) = (Parser::default(), Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        input.extend_from_slice(piece);
        loop {
            let taken = match parser.next(&mut input) {
                Step::More => break,
                Step::Error(words) => return (requests, Some(words)),
                Step::Nothing(taken) => taken,
                Step::Request(taken) => {
                    assert_eq!(parser.words().count(), parser.words_len());
                    requests.push(parser.words().map(|word| input[word].to_vec()).collect());
                    parser.finish();
                    taken
                }
            };
            assert!(0 < taken && taken <= input.len(), "{taken} of {} bytes taken", input.len());
            input.drain(..taken);
        }
    }
    (requests, None)
}
