// The page of a subject that has none of its own.

import { showArtifact } from "../artifact.js";
import { page } from "../dom.js";

page(showArtifact);
