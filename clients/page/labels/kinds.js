// What kinds of questions there are, and how answers are drawn, in words.

export const KINDS = { right_or_wrong: "right or wrong", scale: "a scale", categories: "categories", better_of_two: "the better of two" };
export const DRAWN = { random: "at random", disagreement: "where scores disagree" };
