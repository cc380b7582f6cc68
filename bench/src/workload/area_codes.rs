//! The area codes of Voter and the state each of them lies in.
//! Guarantees: 305 codes, in the order of VoltDB's generator, which decides about favourites.
//! Must not know: calls.
//! Next: calls.rs.

/// States in the generator's order, each with its area codes.
const BY_STATE: &[(&str, &[u16])] = &[
    ("AK", &[907]),
    ("AL", &[205, 256, 334, 251]),
    ("AR", &[870, 501, 479]),
    ("AZ", &[480, 602, 623, 928, 520]),
    (
        "CA",
        &[
            341, 764, 628, 831, 925, 909, 562, 661, 510, 650, 949, 760, 415, 951, 209, 669, 408, 559, 626, 442, 530,
            916, 627, 714, 707, 310, 323, 213, 424, 747, 818, 858, 935, 619, 805, 369,
        ],
    ),
    ("CO", &[720, 303, 970, 719]),
    ("CT", &[860, 203, 959, 475]),
    ("DC", &[202]),
    ("DE", &[302]),
    ("FL", &[689, 407, 239, 850, 727, 321, 754, 954, 927, 352, 863, 386, 904, 561, 772, 786, 305, 941, 813]),
    ("GA", &[478, 770, 470, 404, 762, 706, 678, 912, 229]),
    ("HI", &[808]),
    ("IA", &[515, 319, 563, 641, 712]),
    ("ID", &[208]),
    ("IL", &[217, 872, 312, 773, 464, 708, 224, 847, 779, 815, 618, 309, 331, 630]),
    ("IN", &[317, 765, 574, 260, 219, 812]),
    ("KS", &[913, 785, 316, 620]),
    ("KY", &[606, 859, 502, 270]),
    ("LA", &[504, 985, 225, 318, 337]),
    ("MA", &[774, 508, 339, 781, 857, 617, 978, 351, 413]),
    ("MD", &[443, 410, 301, 240]),
    ("ME", &[207]),
    ("MI", &[517, 810, 278, 679, 313, 586, 947, 248, 734, 269, 989, 906, 616, 231]),
    ("MN", &[612, 320, 651, 763, 952, 218, 507]),
    ("MO", &[636, 660, 975, 816, 573, 314, 557, 417]),
    ("MS", &[769, 601, 662, 228]),
    ("MT", &[406]),
    ("NC", &[336, 252, 984, 919, 980, 910, 828, 704]),
    ("ND", &[701]),
    ("NE", &[402, 308]),
    ("NH", &[603]),
    ("NJ", &[908, 848, 732, 551, 201, 862, 973, 609, 856]),
    ("NM", &[575, 957, 505]),
    ("NV", &[775, 702]),
    ("NY", &[315, 518, 646, 347, 212, 718, 516, 917, 845, 631, 716, 585, 607, 914]),
    ("OH", &[216, 330, 234, 567, 419, 440, 380, 740, 614, 283, 513, 937]),
    ("OK", &[918, 580, 405]),
    ("OR", &[503, 541, 971]),
    ("PA", &[814, 717, 570, 878, 835, 484, 610, 267, 215, 724, 412]),
    ("RI", &[401]),
    ("SC", &[843, 864, 803]),
    ("SD", &[605]),
    ("TN", &[423, 865, 931, 615, 901, 731]),
    (
        "TX",
        &[
            254, 325, 713, 940, 817, 430, 903, 806, 737, 512, 361, 210, 979, 936, 409, 972, 469, 214, 682, 832, 281,
            830, 956, 432, 915,
        ],
    ),
    ("UT", &[435, 801, 385]),
    ("VA", &[434, 804, 757, 703, 571, 276, 236, 540]),
    ("VT", &[802]),
    ("WA", &[509, 360, 564, 206, 425, 253]),
    ("WI", &[715, 920, 262, 414, 608]),
    ("WV", &[304]),
    ("WY", &[307]),
];

/// The state of a number whose area code is not in the table.
pub const STATE_UNKNOWN: &str = "XX";

/// Every area code with its state, in the generator's order.
pub fn all() -> impl Iterator<Item = (u16, &'static str)> {
    BY_STATE.iter().flat_map(|(state, codes)| codes.iter().map(move |&code| (code, *state)))
}

/// All states.
pub fn states() -> impl Iterator<Item = &'static str> {
    BY_STATE.iter().map(|(state, _)| *state)
}

/// The state of an area code.
pub fn state_of(code: u16) -> &'static str {
    all().find(|&(of, _)| of == code).map_or(STATE_UNKNOWN, |(_, state)| state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_305_different_codes_of_three_digits() {
        let codes: BTreeSet<u16> = all().map(|(code, _)| code).collect();
        assert_eq!((all().count(), codes.len()), (305, 305));
        assert!(codes.iter().all(|code| (200..1000).contains(code)));
        assert_eq!(state_of(305), "FL");
        assert_eq!(state_of(1), STATE_UNKNOWN);
    }
}
